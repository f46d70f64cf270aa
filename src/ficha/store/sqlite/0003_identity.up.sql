-- What proves who calls. Of a key's own text only its beginning and a digest are kept.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hint TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE,
    scope TEXT NOT NULL CHECK (scope = 'user' OR scope = 'service' OR scope = 'admin'),
    account_id TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    CHECK ((scope = 'user') = (account_id IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX api_keys_by_name ON api_keys (name) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_by_account ON api_keys (account_id);

-- Apart from the keys, because it changes as long as they live.
CREATE TABLE api_key_uses (
    key_id TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who did what. A line is written in the transaction of what it tells of, and never changed.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    act TEXT NOT NULL,
    target TEXT NOT NULL,
    details TEXT NOT NULL
) STRICT;

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN
    SELECT raise(ABORT, 'an audit line cannot be changed');
END;

CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit BEGIN
    SELECT raise(ABORT, 'an audit line cannot be deleted');
END;
