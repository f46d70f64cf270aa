-- kind: additive
-- What people wrote in audit lines stands apart from the rest, so that the erasure of an account can take it off.

ALTER TABLE audit ADD COLUMN account_id TEXT;
ALTER TABLE audit ADD COLUMN words TEXT;

CREATE INDEX audit_with_words ON audit (account_id, number) WHERE words IS NOT NULL;

-- A line stays as it is, but for its words.
DROP TRIGGER audit_is_not_changed;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit WHEN
    NEW.words IS NOT NULL
    OR NEW.number IS NOT OLD.number OR NEW.at IS NOT OLD.at OR NEW.actor IS NOT OLD.actor OR NEW.act IS NOT OLD.act
    OR NEW.target IS NOT OLD.target OR NEW.details IS NOT OLD.details OR NEW.account_id IS NOT OLD.account_id
BEGIN
    SELECT raise(ABORT, 'an audit line cannot be changed');
END;
