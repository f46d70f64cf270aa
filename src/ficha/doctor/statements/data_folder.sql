-- Whether this is a connection over a socket, where the server keeps its data, if this role may know it, and when the
-- server was started.
SELECT inet_server_addr() IS NULL, (SELECT setting FROM pg_settings WHERE name = 'data_directory'),
    extract(epoch FROM pg_postmaster_start_time())::bigint
