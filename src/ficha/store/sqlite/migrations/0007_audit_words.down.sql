DROP TRIGGER audit_is_not_changed;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN
    SELECT raise(ABORT, 'an audit line cannot be changed');
END;
DROP INDEX audit_with_words;
ALTER TABLE audit DROP COLUMN words;
ALTER TABLE audit DROP COLUMN account_id;
