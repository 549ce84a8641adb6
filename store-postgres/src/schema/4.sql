-- Removes a session that `holder` has leased; returns whether it is gone. It stays if there is mail besides `moved`. The lock
-- waits for those who are sending, and whoever sends afterwards finds no session.
CREATE FUNCTION ah.forget(wanted text, holder text, moved text[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    PERFORM FROM ah.sessions WHERE tenant = current_user AND id = wanted AND owner IS DISTINCT FROM holder FOR UPDATE;
    IF FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM ah.sessions WHERE tenant = current_user AND id = wanted FOR UPDATE;
    IF EXISTS (
        SELECT FROM ah.mail
        WHERE tenant = current_user AND session = wanted AND consumed_by IS NULL AND id <> ALL (moved)) THEN
        RETURN false;
    END IF;
    DELETE FROM ah.sessions WHERE tenant = current_user AND id = wanted;
    RETURN true;
END $function$;
REVOKE EXECUTE ON FUNCTION ah.forget FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ah.forget TO ah;
