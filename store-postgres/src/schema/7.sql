-- A message for a session whose run ends in the same moment. Whoever sends and whoever ends a run write first and then wait for
-- each other, so the second sees what the first wrote; each does all in one transaction, so that nobody who dies in between leaves
-- a message that nobody reads.

-- Queues the last run of a session again if it is over and there is mail.
CREATE FUNCTION ah.queue_again(wanted text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(current_user || ' ' || wanted, 0));
    -- A statement of its own, which sees what was written before the lock was free.
    UPDATE ah.runs
    SET state = 'queued', due_at = clock_timestamp(), attempt = 0, owner = NULL, ended_at = NULL, wish = NULL
    WHERE tenant = current_user AND state IN ('done', 'failed', 'cancelled')
        AND id = (SELECT max(r.id) FROM ah.runs r WHERE r.tenant = current_user AND r.session = wanted)
        AND EXISTS (
            SELECT FROM ah.mail m WHERE m.tenant = current_user AND m.session = wanted AND m.consumed_by IS NULL);
END $function$;

-- Queues a message for a session; one with this id is queued once. A run that is about to be stopped does not read it: that takes
-- another run, as the message says what to do instead.
CREATE FUNCTION ah.send(wanted text, letter text, wanted_kind text, words text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    INSERT INTO ah.mail (session, id, kind, content) VALUES (wanted, letter, wanted_kind, words) ON CONFLICT DO NOTHING;
    -- As below: of two who send at once, the second sees the run that the first has queued.
    PERFORM pg_advisory_xact_lock(hashtextextended(current_user || ' ' || wanted, 0));
    INSERT INTO ah.runs (session, folder, model, priority, attempts, answer_within, title, command)
    SELECT session, folder, model, priority, attempts, answer_within, title, command FROM ah.runs
    WHERE tenant = current_user AND state IN ('running', 'queued') AND wish IS NOT NULL
        AND id = (SELECT max(r.id) FROM ah.runs r WHERE r.tenant = current_user AND r.session = wanted);
    PERFORM ah.queue_again(wanted);
    PERFORM pg_notify('ah', '');
END $function$;

-- Ends the part of a worker in a run, which is due again after `pause` seconds if its new state is 'queued'. Returns whether the
-- worker still had it.
CREATE FUNCTION ah.finish(
    wanted bigint, worker text, new_state text, reason text, pause float8, counts boolean) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
DECLARE
    ended text;
BEGIN
    UPDATE ah.runs
    SET state = new_state, error = coalesce(reason, error),
        owner = CASE WHEN new_state = 'queued' THEN NULL ELSE owner END,
        due_at = clock_timestamp() + make_interval(secs => pause),
        attempt = attempt - CASE WHEN counts THEN 0 ELSE 1 END,
        ended_at = CASE WHEN new_state = 'queued' THEN NULL ELSE clock_timestamp() END
    WHERE tenant = current_user AND id = wanted AND owner = worker AND state = 'running'
    RETURNING session INTO ended;
    IF ended IS NULL THEN
        RETURN false;
    END IF;
    IF new_state <> 'queued' THEN
        DELETE FROM ah.questions q WHERE q.tenant = current_user AND q.session = ended;
    END IF;
    IF new_state = 'done' THEN
        PERFORM ah.queue_again(ended);
    END IF;
    PERFORM pg_notify('ah', '');
    RETURN true;
END $function$;

-- The request by which a worker took the run.
ALTER TABLE ah.runs ADD COLUMN taken_by text;
CREATE INDEX runs_taken ON ah.runs (tenant, taken_by) WHERE state = 'running';

-- Takes the next run, as `ah.claim` of two arguments. A worker whose answer was lost repeats its request and gets the same run, of
-- which nobody else knows.
CREATE FUNCTION ah.claim(worker text, dead float8, request text)
RETURNS TABLE (
    id bigint, session text, folder text, model text, attempt int, attempts int, answer_within float8, command text)
LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
DECLARE
    taken bigint;
BEGIN
    SELECT r.id INTO taken FROM ah.runs r
    WHERE r.tenant = current_user AND r.taken_by = request AND r.state = 'running' AND r.owner = worker;
    IF taken IS NULL THEN
        SELECT next.id INTO taken FROM ah.claim(worker, dead) next;
    END IF;
    RETURN QUERY
        UPDATE ah.runs r SET taken_by = request
        WHERE r.tenant = current_user AND r.id = taken AND r.state = 'running' AND r.owner = worker
        RETURNING r.id, r.session, r.folder, r.model, r.attempt, r.attempts, r.answer_within, r.command;
END $function$;

-- The message by which a schedule was made: the same makes it once.
ALTER TABLE ah.schedules ADD COLUMN request text, ADD UNIQUE (tenant, request);

REVOKE EXECUTE ON FUNCTION ah.queue_again, ah.send, ah.finish, ah.claim(text, float8, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ah.queue_again, ah.send, ah.finish, ah.claim(text, float8, text) TO ah;
