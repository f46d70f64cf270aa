-- Live and dead rows of each table as the server counts them, how long ago it was vacuumed, whether autovacuum is off,
-- how many bytes it has, and about how many of those its rows fill: NULL where the server has not counted, or does not say
-- how wide they are.
SELECT s.relname::text, s.n_live_tup, s.n_dead_tup,
    extract(epoch FROM clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::float8,
    coalesce('autovacuum_enabled=false' = ANY (c.reloptions) OR 'autovacuum_enabled=off' = ANY (c.reloptions), false),
    pg_relation_size(c.oid),
    CASE WHEN c.reltuples < 0 THEN NULL WHEN r.n = 0 THEN 0 ELSE r.n * (28 + w.width) END::float8
FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
    CROSS JOIN LATERAL (SELECT greatest(c.reltuples, s.n_live_tup + s.n_dead_tup) AS n) AS r
    LEFT JOIN LATERAL (
        SELECT sum(p.avg_width * (1 - p.null_frac)) AS width FROM pg_stats p
        WHERE p.schemaname = s.schemaname AND p.tablename = s.relname
    ) AS w ON true
WHERE c.relnamespace = to_regnamespace('ficha')
ORDER BY 1
