SELECT coalesce(sum(size), 0)::bigint FROM pg_ls_waldir()
