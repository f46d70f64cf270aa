-- Which standbys commits wait for, how far, how many followers are hidden from this role, and how many of them follow.
SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'),
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NULL),
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))
