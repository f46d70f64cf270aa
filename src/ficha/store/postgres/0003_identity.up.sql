-- What proves who calls. Of a key's own text only its beginning and a digest are kept.
CREATE TABLE api_keys (
    id          uuid PRIMARY KEY,
    name        text COLLATE "C" NOT NULL,
    hint        text NOT NULL,
    digest      text COLLATE "C" NOT NULL UNIQUE,
    scope       text NOT NULL CHECK (scope IN ('user', 'service', 'admin')),
    account_id  text COLLATE "C",
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    revoked_at  timestamptz,
    CHECK ((scope = 'user') = (account_id IS NOT NULL))
);

CREATE INDEX api_keys_of_name ON api_keys (name) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_of_account ON api_keys (account_id);

-- Apart from the keys, because it changes as long as they live.
CREATE TABLE api_key_uses (
    key_id  uuid PRIMARY KEY,
    at      timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Who did what. A line is written in the transaction of what it tells of, and never changed.
CREATE TABLE audit (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL,
    actor    text NOT NULL,
    act      text NOT NULL,
    target   text NOT NULL,
    details  jsonb NOT NULL
);

CREATE FUNCTION ficha_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit lines are immutable' USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER audit_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION ficha_refuse_audit_change();

-- Where row-level security is on, nobody reads these but Ficha itself.
DO $$
BEGIN
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = 'leaders'::regclass) THEN
        ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
        ALTER TABLE api_key_uses ENABLE ROW LEVEL SECURITY;
        ALTER TABLE audit ENABLE ROW LEVEL SECURITY;
    END IF;
END
$$;
