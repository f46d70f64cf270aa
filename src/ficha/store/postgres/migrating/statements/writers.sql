-- Roles that have a right to change a table, other than superusers, the tables' owner and those who act as the owner. A
-- right on a table is of no use without one on its schema.
SELECT rolname::text FROM pg_roles r
WHERE NOT rolsuper AND rolname NOT LIKE 'pg\_%' AND has_schema_privilege(r.oid, to_regnamespace('ficha'), 'USAGE')
    AND EXISTS (
        SELECT FROM pg_class c
        WHERE c.relnamespace = to_regnamespace('ficha') AND c.relkind IN ('r', 'v')
            AND NOT pg_has_role(r.oid, c.relowner, 'USAGE')
            AND (
                has_table_privilege(r.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
                OR has_any_column_privilege(r.oid, c.oid, 'INSERT, UPDATE')
            )
    )
ORDER BY rolname
