-- Everything that the way up made, and all that is in it.
DROP VIEW job_states;
DROP TABLE audit, api_key_uses, api_keys, worker_counts, workers, commits, leaders, contents, pools, batches,
    reservations, keys, events, entries, steps, checkpoints, leases, parked, ready, jobs, accounts, account_ids;
DROP FUNCTION ficha_refuse_audit_change();
DROP FUNCTION ficha_refuse_change();
