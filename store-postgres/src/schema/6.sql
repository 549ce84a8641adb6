-- Deletes the sessions without a change since `before` (Unix milliseconds), if it is not NULL, that nothing waits for; then
-- the contents that no change names. Returns the ids of the sessions, the number of contents and their bytes.
CREATE FUNCTION ah.collect(before bigint, OUT gone_sessions text[], OUT contents bigint, OUT bytes bigint)
LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
DECLARE
    old text[];
    known text[];
    ends bigint[];
    unused text[];
BEGIN
    -- A session that is open beats. The lock makes those wait who queue something meanwhile; they find no session afterwards.
    -- What they queued before is seen by the next statement.
    old := ARRAY(
        SELECT s.id FROM ah.sessions s
        WHERE s.tenant = current_user AND s.beat_at < to_timestamp(before / 1000.0)
            AND (s.owner IS NULL OR s.beat_at < clock_timestamp() - interval '1 hour')
        FOR UPDATE SKIP LOCKED);
    WITH gone AS (
        DELETE FROM ah.sessions s
        WHERE s.tenant = current_user AND s.id = ANY (old)
            AND NOT EXISTS (
                SELECT FROM ah.runs r
                WHERE r.tenant = current_user AND r.session = s.id AND r.state IN ('queued', 'running'))
            AND NOT EXISTS (
                SELECT FROM ah.mail m WHERE m.tenant = current_user AND m.session = s.id AND m.consumed_by IS NULL)
        RETURNING s.id)
    SELECT coalesce(array_agg(gone.id ORDER BY gone.id), '{}') INTO gone_sessions FROM gone;

    -- All changes are read while others write. The changes that come meanwhile are those after these ends.
    SELECT coalesce(array_agg(s.id), '{}'), coalesce(array_agg(s.next), '{}') INTO known, ends
    FROM ah.sessions s WHERE s.tenant = current_user;
    unused := ARRAY(
        SELECT b.hash FROM ah.blobs b WHERE b.tenant = current_user
        EXCEPT
        SELECT named[1] FROM ah.changes c, regexp_matches(c.body::text, '[0-9a-f]{64}', 'g') AS named
        WHERE c.tenant = current_user);
    -- A change is stored in one transaction with its contents, so whoever uses one of these has stored it or waits.
    LOCK TABLE ah.blobs IN SHARE ROW EXCLUSIVE MODE;
    WITH gone AS (
        DELETE FROM ah.blobs b
        WHERE b.tenant = current_user AND b.hash = ANY (unused) AND b.hash NOT IN (
            SELECT named[1]
            FROM ah.sessions s
                LEFT JOIN unnest(known, ends) AS seen (id, next) ON seen.id = s.id
                JOIN ah.changes c ON c.tenant = s.tenant AND c.session = s.id AND c.seq >= coalesce(seen.next, 0),
                regexp_matches(c.body::text, '[0-9a-f]{64}', 'g') AS named
            WHERE s.tenant = current_user AND s.next > coalesce(seen.next, 0))
        RETURNING length(b.content))
    SELECT count(*), coalesce(sum(length), 0) INTO contents, bytes FROM gone;
END $function$;
REVOKE EXECUTE ON FUNCTION ah.collect FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ah.collect TO ah;
