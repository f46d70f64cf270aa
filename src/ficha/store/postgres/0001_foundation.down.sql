-- Everything that the way up made, and all that is in it.
DROP VIEW job_states;
DROP TABLE lanes, leaders, contents, pools, batches, reservations, keys, events, entries, steps, checkpoints,
    leases, parked, ready, jobs, accounts, account_ids;
DROP FUNCTION ficha_refuse_change();
