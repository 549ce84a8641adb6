-- The role that may use the tables. Each tenant is a role of its own that is a member of it.
DO $role$ BEGIN
    CREATE ROLE ah NOLOGIN;
EXCEPTION
    -- Roles belong to all databases of a server.
    WHEN duplicate_object OR unique_violation THEN NULL;
END $role$;

-- A session, its lease, and sums over its log. `next` is the number of the next change.
CREATE TABLE ah.sessions (
    tenant name NOT NULL DEFAULT current_user,
    id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    epoch bigint NOT NULL DEFAULT 0,
    owner text,
    beat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    next bigint NOT NULL DEFAULT 0,
    messages bigint NOT NULL DEFAULT 0,
    cost bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 70);

-- What happened in a session, in order. `json`, not `jsonb`: outputs may have NUL characters.
CREATE TABLE ah.changes (
    tenant name NOT NULL DEFAULT current_user,
    session text NOT NULL,
    seq bigint NOT NULL,
    epoch bigint NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    body json NOT NULL,
    PRIMARY KEY (tenant, session, seq),
    FOREIGN KEY (tenant, session) REFERENCES ah.sessions (tenant, id) ON DELETE CASCADE
);

-- Large contents, each once.
CREATE TABLE ah.blobs (
    tenant name NOT NULL DEFAULT current_user,
    hash text NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (tenant, hash)
);

-- Messages for a session. `consumed_by` is the number of the change that has it in the conversation.
CREATE TABLE ah.mail (
    tenant name NOT NULL DEFAULT current_user,
    number bigint GENERATED ALWAYS AS IDENTITY,
    session text NOT NULL,
    id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('steer', 'followup')),
    content text NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    consumed_by bigint,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, session) REFERENCES ah.sessions (tenant, id) ON DELETE CASCADE
);
CREATE INDEX mail_waiting ON ah.mail (tenant, session, number) WHERE consumed_by IS NULL;

-- Requests to run a session.
CREATE TABLE ah.runs (
    tenant name NOT NULL DEFAULT current_user,
    id bigint GENERATED ALWAYS AS IDENTITY,
    session text NOT NULL,
    folder text NOT NULL,
    model text,
    priority int NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempt int NOT NULL DEFAULT 0,
    attempts int NOT NULL DEFAULT 1,
    owner text,
    beat_at timestamptz,
    wish text CHECK (wish IN ('interrupt', 'cancel')),
    error text,
    queued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, session) REFERENCES ah.sessions (tenant, id) ON DELETE CASCADE
);
CREATE INDEX runs_open ON ah.runs (tenant, priority DESC, due_at, id) WHERE state IN ('queued', 'running');
CREATE INDEX runs_of_session ON ah.runs (tenant, session);

-- Each tenant has its own rows, and so has the owner of the tables.
DO $tenants$ DECLARE name text; BEGIN
    FOREACH name IN ARRAY ARRAY['sessions', 'changes', 'blobs', 'mail', 'runs'] LOOP
        EXECUTE format('ALTER TABLE ah.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE ah.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant ON ah.%I USING (tenant = current_user) WITH CHECK (tenant = current_user)', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ah.%I TO ah', name);
    END LOOP;
END $tenants$;
GRANT USAGE ON SCHEMA ah TO ah;
GRANT SELECT ON ah.migrations TO ah;
