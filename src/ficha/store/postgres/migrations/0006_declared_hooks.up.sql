-- kind: additive
-- The hooks of all processes, so that each owes those of the others too.
CREATE TABLE ficha.declared_hooks (
    name         text COLLATE "C" PRIMARY KEY,
    declared_at  timestamptz NOT NULL,
    run_at       timestamptz,
    ends         json NOT NULL,
    tools        json
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- As every other table: closed to all but the owner.
ALTER TABLE ficha.declared_hooks ENABLE ROW LEVEL SECURITY;
DO $$
DECLARE
    role text;
BEGIN
    FOR role IN
        SELECT 'PUBLIC' UNION ALL SELECT quote_ident(rolname) FROM pg_roles WHERE rolname IN ('anon', 'authenticated')
    LOOP
        EXECUTE format('REVOKE ALL ON ficha.declared_hooks FROM %s', role);
    END LOOP;
END
$$;
