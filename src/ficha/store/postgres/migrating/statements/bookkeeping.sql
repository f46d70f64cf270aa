-- A schema that somebody else made is taken as it is: IF NOT EXISTS would ask for the right to make one all the same.
-- A table of the time when only the number was recorded gets the other columns.
DO $$ BEGIN
    IF to_regnamespace('ficha') IS NULL THEN CREATE SCHEMA ficha; END IF;
    IF to_regclass('ficha.migrations') IS NULL THEN CREATE TABLE ficha.migrations (version integer PRIMARY KEY); END IF;
    IF NOT EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = to_regclass('ficha.migrations') AND attname = 'works_from'
    ) THEN
        ALTER TABLE ficha.migrations {columns};
    END IF;
END $$;
