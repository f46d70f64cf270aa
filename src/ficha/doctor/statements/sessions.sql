-- What other roles' sessions are and do is NULL without the right to see it.
-- Sessions of this database in a transaction for too long or idle in one, those whose state is hidden, and prepared
-- transactions. A transaction that is both is told as idle.
WITH others AS MATERIALIZED (
    SELECT pid, coalesce(usename, '?') || ' (pid ' || pid || coalesce(', ' || nullif(application_name, ''), '') || ')' AS who,
        state, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS open_s,
        extract(epoch FROM clock_timestamp() - state_change)::float8 AS still_s, coalesce(query, '') AS query
    FROM pg_stat_activity
    WHERE datname = current_database() AND coalesce(backend_type, 'client backend') = 'client backend' AND pid <> pg_backend_pid()
)
SELECT CASE WHEN state LIKE 'idle in transaction%' AND still_s >= $2 THEN 'idle' ELSE 'long' END,
    who, open_s, query
FROM others WHERE open_s >= $1 OR (state LIKE 'idle in transaction%' AND still_s >= $2)
UNION ALL
SELECT 'hidden', who, 0, '' FROM others WHERE state IS NULL
UNION ALL
SELECT 'prepared', gid, extract(epoch FROM clock_timestamp() - prepared)::float8, '' FROM pg_prepared_xacts
WHERE database = current_database() AND prepared < clock_timestamp() - $1 * interval '1 second'
ORDER BY 3 DESC
