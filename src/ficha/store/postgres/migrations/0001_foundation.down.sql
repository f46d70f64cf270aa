-- Everything that the way up made, and all that is in it.
DROP VIEW ficha.job_states;
DROP TABLE
    ficha.bulk_acts, ficha.page_sessions, ficha.file_usage, ficha.files, ficha.deliveries, ficha.webhook_endpoints,
    ficha.provider_states, ficha.provider_outages,
    ficha.audit, ficha.hooks, ficha.api_key_uses, ficha.api_keys, ficha.worker_counts, ficha.workers, ficha.commits,
    ficha.rollups, ficha.figure_cursors, ficha.leaders, ficha.contents, ficha.pools, ficha.batches, ficha.reservations, ficha.keys, ficha.events,
    ficha.entries, ficha.steps, ficha.checkpoints, ficha.leases, ficha.parked, ficha.ready, ficha.jobs, ficha.accounts,
    ficha.account_ids;
DROP FUNCTION ficha.refuse_audit_change();
DROP FUNCTION ficha.refuse_entry_change();
DROP FUNCTION ficha.current_account();
