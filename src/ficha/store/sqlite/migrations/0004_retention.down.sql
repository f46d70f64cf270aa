DROP TRIGGER entries_are_not_changed;
CREATE TRIGGER entries_are_not_changed BEFORE UPDATE ON entries BEGIN
    SELECT raise(ABORT, 'a ledger line cannot be changed; write a new one that corrects it');
END;
DROP INDEX deliveries_of_account;
DROP TABLE kept_jobs;
DROP TABLE retention_cursors;
ALTER TABLE jobs DROP COLUMN payload_removed_at;
