-- A schema that somebody else made is taken as it is: IF NOT EXISTS would ask for the right to make one all the same.
DO $$ BEGIN IF to_regnamespace('ficha') IS NULL THEN CREATE SCHEMA ficha; END IF; END $$;
CREATE TABLE IF NOT EXISTS ficha.migrations (version integer PRIMARY KEY);
