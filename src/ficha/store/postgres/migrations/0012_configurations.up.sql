-- kind: additive
-- What applications declare (prices, plans, limits), so that a change of it is told once.

CREATE TABLE ficha.configurations (
    name      text COLLATE "C" PRIMARY KEY,
    subjects  json NOT NULL
);

DO $$
DECLARE
    role text;
BEGIN
    ALTER TABLE ficha.configurations ENABLE ROW LEVEL SECURITY;
    FOR role IN
        SELECT 'PUBLIC' UNION ALL SELECT quote_ident(rolname) FROM pg_roles WHERE rolname IN ('anon', 'authenticated')
    LOOP
        EXECUTE format('REVOKE ALL ON ficha.configurations FROM %s', role);
    END LOOP;
END
$$;
