-- kind: additive
-- What an operator has stopped: tools that are paused, tools and pools that take no submits.

CREATE TABLE ficha.brakes (
    name      text COLLATE "C" PRIMARY KEY,
    since_at  timestamptz NOT NULL,
    paused    boolean NOT NULL,
    settled   boolean NOT NULL,
    closed    text
);

ALTER TABLE ficha.pools ADD COLUMN paused_tools json NOT NULL DEFAULT '[]';

DO $$
DECLARE
    role text;
BEGIN
    ALTER TABLE ficha.brakes ENABLE ROW LEVEL SECURITY;
    FOR role IN
        SELECT 'PUBLIC' UNION ALL SELECT quote_ident(rolname) FROM pg_roles WHERE rolname IN ('anon', 'authenticated')
    LOOP
        EXECUTE format('REVOKE ALL ON ficha.brakes FROM %s', role);
    END LOOP;
END
$$;
