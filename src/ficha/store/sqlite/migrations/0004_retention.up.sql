-- kind: additive
-- What leaves by its age, and with an account that is erased.

ALTER TABLE jobs ADD COLUMN payload_removed_at INTEGER;

-- How far the walk over all jobs has come, by age.
CREATE TABLE retention_cursors (
    name TEXT PRIMARY KEY NOT NULL,
    rules TEXT NOT NULL,
    turn INTEGER NOT NULL,
    walks TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Jobs that were not due when the walk passed them, because they ended long after their submit.
CREATE TABLE kept_jobs (
    job_id TEXT PRIMARY KEY NOT NULL,
    look_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX kept_jobs_due ON kept_jobs (look_at);

CREATE INDEX deliveries_of_account ON deliveries (account_id);

-- A ledger line stays as it is, but for its reason: it is taken off when the account is erased.
DROP TRIGGER entries_are_not_changed;
CREATE TRIGGER entries_are_not_changed BEFORE UPDATE ON entries WHEN
    NEW.reason IS NOT NULL
    OR NEW.account_id IS NOT OLD.account_id OR NEW.number IS NOT OLD.number OR NEW.kind IS NOT OLD.kind
    OR NEW.amount IS NOT OLD.amount OR NEW.balance_after IS NOT OLD.balance_after OR NEW.at IS NOT OLD.at
    OR NEW.job_id IS NOT OLD.job_id
BEGIN
    SELECT raise(ABORT, 'a ledger line cannot be changed; write a new one that corrects it');
END;
