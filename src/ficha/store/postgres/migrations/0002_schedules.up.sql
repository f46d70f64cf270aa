-- kind: additive
-- Recurring jobs: how each was declared last, and up to where its slots are settled.
CREATE TABLE ficha.schedules (
    name          text COLLATE "C" PRIMARY KEY,
    slot_at       timestamptz NOT NULL,
    last_at       timestamptz,
    last_slot_at  timestamptz,
    last_job_id   uuid,
    fired         bigint NOT NULL,
    refused       bigint NOT NULL,
    missed        bigint NOT NULL,
    paused        boolean NOT NULL,
    cron          text NOT NULL,
    tz            text NOT NULL,
    tool          text NOT NULL,
    account_id    text COLLATE "C",
    last_code     text,
    last_message  text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- As every other table: closed to all but the owner.
ALTER TABLE ficha.schedules ENABLE ROW LEVEL SECURITY;
DO $$
DECLARE
    role text;
BEGIN
    FOR role IN
        SELECT 'PUBLIC' UNION ALL SELECT quote_ident(rolname) FROM pg_roles WHERE rolname IN ('anon', 'authenticated')
    LOOP
        EXECUTE format('REVOKE ALL ON ficha.schedules FROM %s', role);
    END LOOP;
END
$$;
