-- kind: additive
-- Recurring jobs: how each was declared last, and up to where its slots are settled.
CREATE TABLE schedules (
    name TEXT PRIMARY KEY NOT NULL,
    cron TEXT NOT NULL,
    tz TEXT NOT NULL,
    tool TEXT NOT NULL,
    account_id TEXT,
    slot_at INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    fired INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    missed INTEGER NOT NULL,
    last_at INTEGER,
    last_slot_at INTEGER,
    last_job_id TEXT,
    last_code TEXT,
    last_message TEXT
) STRICT, WITHOUT ROWID;
