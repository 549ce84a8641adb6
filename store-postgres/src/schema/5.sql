-- What each turn needs, as functions. Statements have no names, so the server reads and plans each one anew, which takes it
-- longer than to carry it out; what is in a function it plans once for each connection.

-- Takes the lease on a session, which is made if there is none, unless another holder beats. Returns its epoch and the number
-- of its next change.
CREATE FUNCTION ah.take(wanted text, holder text, dead float8) RETURNS TABLE (epoch bigint, next bigint)
LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    INSERT INTO ah.sessions (id) VALUES (wanted) ON CONFLICT DO NOTHING;
    RETURN QUERY
        UPDATE ah.sessions s SET epoch = s.epoch + 1, owner = holder, beat_at = clock_timestamp()
        WHERE s.tenant = current_user AND s.id = wanted
            AND (s.owner IS NULL OR s.owner = holder OR s.beat_at < clock_timestamp() - make_interval(secs => dead))
        RETURNING s.epoch, s.next;
END $function$;

-- Stores change `place` of a session if `held` is the epoch of its lease and no change has this number yet. Returns whether
-- messages wait for the session then; nothing if the change was not stored.
CREATE FUNCTION ah.append(
    wanted text, held bigint, place bigint, change text, new_messages bigint, new_cost bigint,
    letters text[], hashes text[], contents bytea[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    UPDATE ah.sessions
    SET next = next + 1, messages = messages + new_messages, cost = cost + new_cost, beat_at = clock_timestamp()
    WHERE tenant = current_user AND id = wanted AND epoch = held AND next = place;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF cardinality(letters) > 0 THEN
        UPDATE ah.mail m SET consumed_by = place
        WHERE m.tenant = current_user AND m.session = wanted AND m.id = ANY (letters) AND m.consumed_by IS NULL;
    END IF;
    IF cardinality(hashes) > 0 THEN
        INSERT INTO ah.blobs (hash, content)
        SELECT given.hash, given.content FROM unnest(hashes, contents) AS given (hash, content)
        ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO ah.changes (session, seq, epoch, body) VALUES (wanted, place, held, change::json);
    RETURN EXISTS (
        SELECT FROM ah.mail m WHERE m.tenant = current_user AND m.session = wanted AND m.consumed_by IS NULL);
END $function$;

-- Returns the messages that wait for a session, the oldest first.
CREATE FUNCTION ah.waiting(wanted text, wanted_kind text)
RETURNS TABLE (id text, content text, sent_at_ms bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $function$
BEGIN
    RETURN QUERY
        SELECT m.id, m.content, (extract(epoch FROM m.sent_at) * 1000)::bigint FROM ah.mail m
        WHERE m.tenant = current_user AND m.session = wanted AND m.kind = wanted_kind AND m.consumed_by IS NULL
        ORDER BY m.number;
END $function$;

-- Takes the next run. A session has one run at a time; two that are taken in the same instant meet at its lease.
CREATE FUNCTION ah.claim(worker text, dead float8)
RETURNS TABLE (
    id bigint, session text, folder text, model text, attempt int, attempts int, answer_within float8, command text)
LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    RETURN QUERY
        UPDATE ah.runs r SET state = 'running', owner = worker, attempt = r.attempt + 1, beat_at = clock_timestamp()
        WHERE r.tenant = current_user AND r.id = (
            SELECT next.id FROM ah.runs next
            WHERE next.tenant = current_user AND next.state IN ('queued', 'running')
                AND CASE next.state WHEN 'queued' THEN next.due_at <= clock_timestamp()
                    ELSE next.owner <> worker AND next.beat_at < clock_timestamp() - make_interval(secs => dead) END
                AND NOT EXISTS (
                    SELECT FROM ah.runs other
                    WHERE other.tenant = current_user AND other.session = next.session AND other.id <> next.id
                        AND other.state = 'running'
                        AND other.beat_at >= clock_timestamp() - make_interval(secs => dead))
                AND NOT EXISTS (SELECT FROM ah.limits l WHERE l.tenant IN (current_user, '*') AND l.budget <= 0)
            ORDER BY next.priority DESC, next.due_at, next.id
            FOR UPDATE SKIP LOCKED LIMIT 1)
        RETURNING r.id, r.session, r.folder, r.model, r.attempt, r.attempts, r.answer_within, r.command;
END $function$;

-- Takes a slot, as `ah.admit`; `wait` is NULL if no limit concerns the model.
CREATE FUNCTION ah.slot(wanted text, OUT wait float8, OUT is_spent boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM ah.limits l WHERE l.tenant IN (session_user, '*') AND l.model IN (wanted, '*')) THEN
        is_spent := false;
        RETURN;
    END IF;
    SELECT a.wait, a.is_spent FROM ah.admit(wanted) a INTO wait, is_spent;
END $function$;

REVOKE EXECUTE ON FUNCTION ah.take, ah.append, ah.waiting, ah.claim, ah.slot FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ah.take, ah.append, ah.waiting, ah.claim, ah.slot TO ah;
