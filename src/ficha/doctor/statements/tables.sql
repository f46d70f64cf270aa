-- Live and dead rows of each table as the server counts them, how long ago it was vacuumed, and whether autovacuum is off.
SELECT s.relname::text, s.n_live_tup, s.n_dead_tup,
    extract(epoch FROM clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::float8,
    coalesce('autovacuum_enabled=false' = ANY (c.reloptions) OR 'autovacuum_enabled=off' = ANY (c.reloptions), false)
FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
WHERE c.relnamespace = to_regnamespace('ficha')
ORDER BY 1
