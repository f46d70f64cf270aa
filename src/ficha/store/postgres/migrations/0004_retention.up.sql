-- kind: additive
-- What leaves by its age, and with an account that is erased.

ALTER TABLE ficha.jobs ADD COLUMN payload_removed_at timestamptz;

-- How far the walk over all jobs has come, by age.
CREATE TABLE ficha.retention_cursors (
    name   text COLLATE "C" PRIMARY KEY,
    rules  text NOT NULL,
    turn   bigint NOT NULL,
    walks  json NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Jobs that were not due when the walk passed them, because they ended long after their submit.
CREATE TABLE ficha.kept_jobs (
    job_id   uuid PRIMARY KEY,
    look_at  timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX kept_jobs_due ON ficha.kept_jobs (look_at);

CREATE INDEX deliveries_of_account ON ficha.deliveries (account_id);

-- A ledger line stays as it is, but for its reason: it is taken off when the account is erased.
DROP TRIGGER entries_immutable ON ficha.entries;
CREATE TRIGGER entries_immutable BEFORE DELETE OR TRUNCATE ON ficha.entries
    FOR EACH STATEMENT EXECUTE FUNCTION ficha.refuse_entry_change();
CREATE TRIGGER entries_keep_their_numbers BEFORE UPDATE ON ficha.entries
    FOR EACH ROW WHEN (
        NEW.reason IS NOT NULL
        OR (NEW.account_id, NEW.number, NEW.kind, NEW.amount, NEW.balance_after, NEW.at, NEW.job_id)
            IS DISTINCT FROM (OLD.account_id, OLD.number, OLD.kind, OLD.amount, OLD.balance_after, OLD.at, OLD.job_id)
    ) EXECUTE FUNCTION ficha.refuse_entry_change();

DO $$
DECLARE
    one regclass;
    role text;
BEGIN
    FOREACH one IN ARRAY ARRAY['ficha.retention_cursors', 'ficha.kept_jobs']::regclass[] LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', one);
        FOR role IN
            SELECT 'PUBLIC' UNION ALL SELECT quote_ident(rolname) FROM pg_roles WHERE rolname IN ('anon', 'authenticated')
        LOOP
            EXECUTE format('REVOKE ALL ON %s FROM %s', one, role);
        END LOOP;
    END LOOP;
END
$$;
