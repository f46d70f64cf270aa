-- An existing schema is used as it is: CREATE SCHEMA IF NOT EXISTS would need the right to create one even then.
-- A table in which only the number was recorded gets the other columns.
DO $$ BEGIN
    IF to_regnamespace('ficha') IS NULL THEN CREATE SCHEMA ficha; END IF;
    IF to_regclass('ficha.migrations') IS NULL THEN CREATE TABLE ficha.migrations (version integer PRIMARY KEY); END IF;
    IF NOT EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = to_regclass('ficha.migrations') AND attname = 'works_from'
    ) THEN
        ALTER TABLE ficha.migrations {columns};
    END IF;
END $$;
