-- kind: additive
-- The hooks of all processes, so that each owes those of the others too.
CREATE TABLE declared_hooks (
    name TEXT PRIMARY KEY NOT NULL,
    ends TEXT NOT NULL,
    tools TEXT,
    declared_at INTEGER NOT NULL,
    run_at INTEGER
) STRICT, WITHOUT ROWID;
