-- A run that is done says what its check has shown, if it had one, and nothing of what it waited for on its way.

CREATE OR REPLACE FUNCTION ah.finish(
    wanted bigint, worker text, new_state text, reason text, pause float8, counts boolean) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
DECLARE
    ended text;
BEGIN
    UPDATE ah.runs
    SET state = new_state, error = CASE WHEN new_state = 'done' THEN reason ELSE coalesce(reason, error) END,
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
