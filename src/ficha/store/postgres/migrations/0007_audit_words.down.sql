DROP TRIGGER IF EXISTS audit_keeps_what_was_done ON ficha.audit;
DROP TRIGGER IF EXISTS audit_immutable ON ficha.audit;
CREATE TRIGGER audit_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON ficha.audit
    FOR EACH STATEMENT EXECUTE FUNCTION ficha.refuse_audit_change();
DROP INDEX IF EXISTS ficha.audit_with_words;
ALTER TABLE ficha.audit DROP COLUMN IF EXISTS words;
ALTER TABLE ficha.audit DROP COLUMN IF EXISTS account_id;
