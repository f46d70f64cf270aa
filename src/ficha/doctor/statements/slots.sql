SELECT slot_name::text, active, coalesce(
    pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn), 0
)::bigint, wal_status
FROM pg_replication_slots
ORDER BY 1
