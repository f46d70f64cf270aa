-- Connections of all clients to the server and to this database, and how many there may be; -1 for no limit.
SELECT
    (SELECT count(*) FROM pg_stat_activity WHERE coalesce(backend_type, 'client backend') = 'client backend'),
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer,
    (SELECT count(*) FROM pg_stat_activity WHERE coalesce(backend_type, 'client backend') = 'client backend' AND datname = current_database()),
    (SELECT datconnlimit FROM pg_database WHERE datname = current_database())
