-- kind: additive
-- What applications declare (prices, plans, limits), so that a change of it is told once.

CREATE TABLE configurations (
    name TEXT PRIMARY KEY NOT NULL,
    subjects TEXT NOT NULL
) STRICT, WITHOUT ROWID;
