-- Transactions that have been holding locks on our tables for a while, the oldest first: those a step waits for.
SELECT DISTINCT a.pid, a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::bigint AS seconds
FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND c.relnamespace = to_regnamespace('ficha') AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
ORDER BY seconds DESC LIMIT 3
