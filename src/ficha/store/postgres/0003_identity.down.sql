DROP TABLE audit, api_key_uses, api_keys;
DROP FUNCTION ficha_refuse_audit_change();
