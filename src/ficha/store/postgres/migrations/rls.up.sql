-- Row-level security, for those who let their users read this database directly (D10 of the requirements).
--
-- A role that does not own the tables sees only the rows of the account it speaks for, and no row where it speaks for
-- none. It can write nothing: there are no policies for writing. Ficha itself connects as the owner, whom this does
-- not touch. The role still needs the right to read at all: GRANT SELECT ON jobs, job_states, entries, … TO that role.
--
-- Who speaks is a setting of the transaction, made by whoever opens it on the user's behalf:
--     BEGIN; SELECT set_config('ficha.account', 'ana', true); SELECT * FROM job_states; COMMIT;
-- With Supabase, where account ids are the users' ids, replace each  nullif(current_setting('ficha.account', true), '')
-- below by  (auth.uid())::text  and run this file yourself. The sub-select makes PostgreSQL ask once per query, not
-- once per row.
--
-- Where a transaction sets it, the setting reads as '' afterwards instead of missing: hence the nullif.

ALTER TABLE accounts ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON accounts FOR SELECT
    USING (id = (SELECT nullif(current_setting('ficha.account', true), '')));

ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON jobs FOR SELECT
    USING (account_id = (SELECT nullif(current_setting('ficha.account', true), '')));

ALTER TABLE ready ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON ready FOR SELECT
    USING (account_id = (SELECT nullif(current_setting('ficha.account', true), '')));

ALTER TABLE parked ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON parked FOR SELECT
    USING (account_id = (SELECT nullif(current_setting('ficha.account', true), '')));

ALTER TABLE leases ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON leases FOR SELECT
    USING (account_id = (SELECT nullif(current_setting('ficha.account', true), '')));

ALTER TABLE entries ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON entries FOR SELECT
    USING (account_id = (SELECT nullif(current_setting('ficha.account', true), '')));

ALTER TABLE events ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON events FOR SELECT
    USING (account_id = (SELECT nullif(current_setting('ficha.account', true), '')));

ALTER TABLE keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON keys FOR SELECT
    USING (account_id = (SELECT nullif(current_setting('ficha.account', true), '')));

ALTER TABLE reservations ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON reservations FOR SELECT
    USING (account_id = (SELECT nullif(current_setting('ficha.account', true), '')));

ALTER TABLE batches ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON batches FOR SELECT
    USING (account_id = (SELECT nullif(current_setting('ficha.account', true), '')));

-- These belong to whom their job belongs to. The policy of `jobs` applies inside the sub-select too, and the reader
-- needs the right to read jobs.id and jobs.account_id.
ALTER TABLE checkpoints ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON checkpoints FOR SELECT USING (EXISTS (
    SELECT FROM jobs
    WHERE jobs.id = checkpoints.job_id
        AND jobs.account_id = (SELECT nullif(current_setting('ficha.account', true), ''))
));

ALTER TABLE steps ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON steps FOR SELECT USING (EXISTS (
    SELECT FROM jobs
    WHERE jobs.id = steps.job_id
        AND jobs.account_id = (SELECT nullif(current_setting('ficha.account', true), ''))
));

-- Nobody's in particular, so nobody's to read.
ALTER TABLE account_ids ENABLE ROW LEVEL SECURITY;
ALTER TABLE pools ENABLE ROW LEVEL SECURITY;
ALTER TABLE contents ENABLE ROW LEVEL SECURITY;
ALTER TABLE leaders ENABLE ROW LEVEL SECURITY;
ALTER TABLE commits ENABLE ROW LEVEL SECURITY;
ALTER TABLE workers ENABLE ROW LEVEL SECURITY;
ALTER TABLE worker_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_key_uses ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE schema_migrations ENABLE ROW LEVEL SECURITY;
