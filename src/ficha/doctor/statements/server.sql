SELECT current_setting('server_version'), current_setting('server_version_num')::integer, pg_is_in_recovery(),
    pg_database_size(current_database())
