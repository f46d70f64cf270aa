-- kind: additive
-- What people wrote in audit lines stands apart from the rest, so that the erasure of an account can take it off.

ALTER TABLE ficha.audit ADD COLUMN IF NOT EXISTS account_id text COLLATE "C";
ALTER TABLE ficha.audit ADD COLUMN IF NOT EXISTS words json;

-- A line stays as it is, but for its words.
DROP TRIGGER IF EXISTS audit_keeps_what_was_done ON ficha.audit;
CREATE TRIGGER audit_keeps_what_was_done BEFORE UPDATE ON ficha.audit
    FOR EACH ROW WHEN (
        NEW.words IS NOT NULL
        OR (NEW.number, NEW.at, NEW.actor, NEW.act, NEW.target, NEW.details::text, NEW.account_id)
            IS DISTINCT FROM (OLD.number, OLD.at, OLD.actor, OLD.act, OLD.target, OLD.details::text, OLD.account_id)
    ) EXECUTE FUNCTION ficha.refuse_audit_change();
DROP TRIGGER IF EXISTS audit_immutable ON ficha.audit;
CREATE TRIGGER audit_immutable BEFORE DELETE OR TRUNCATE ON ficha.audit
    FOR EACH STATEMENT EXECUTE FUNCTION ficha.refuse_audit_change();

-- step: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS audit_with_words ON ficha.audit (account_id, number) WHERE words IS NOT NULL;
