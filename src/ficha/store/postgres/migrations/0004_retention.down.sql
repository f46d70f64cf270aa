DROP TRIGGER entries_keep_their_numbers ON ficha.entries;
DROP TRIGGER entries_immutable ON ficha.entries;
CREATE TRIGGER entries_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON ficha.entries
    FOR EACH STATEMENT EXECUTE FUNCTION ficha.refuse_entry_change();
DROP INDEX ficha.deliveries_of_account;
DROP TABLE ficha.kept_jobs, ficha.retention_cursors;
ALTER TABLE ficha.jobs DROP COLUMN payload_removed_at;
