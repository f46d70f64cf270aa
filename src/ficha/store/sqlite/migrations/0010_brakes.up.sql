-- kind: additive
-- What an operator has stopped: tools that are paused, tools and pools that take no submits.

CREATE TABLE brakes (
    name TEXT PRIMARY KEY NOT NULL,
    since_at INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    closed TEXT
) STRICT, WITHOUT ROWID;

ALTER TABLE pools ADD COLUMN paused_tools TEXT NOT NULL DEFAULT '[]';
