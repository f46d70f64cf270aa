-- Where the server keeps its data, if this role may know it, and whether that is on this machine.
SELECT inet_server_addr() IS NULL, (SELECT setting FROM pg_settings WHERE name = 'data_directory')
