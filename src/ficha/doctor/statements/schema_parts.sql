-- Everything in the schema: its kind, its table, its name, and what is compared of it. The table in which it is recorded
-- which migrations have run is the migrator's own.
WITH tables AS MATERIALIZED (
    SELECT oid, relname::text AS name, relkind, relrowsecurity FROM pg_class
    WHERE relnamespace = to_regnamespace('ficha') AND relkind IN ('r', 'p', 'v')
        AND relname <> 'migrations'
)
SELECT 'table', name, name, CASE WHEN relrowsecurity THEN 'with row-level security' ELSE 'without row-level security' END
FROM tables WHERE relkind IN ('r', 'p')
UNION ALL
SELECT 'view', name, name, NULL FROM tables WHERE relkind = 'v'
UNION ALL
SELECT 'column', t.name, a.attname::text, y.typname::text || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid JOIN pg_type y ON y.oid = a.atttypid
WHERE t.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT
    CASE WHEN i.indisunique THEN 'unique index' ELSE 'index' END, t.name, x.relname::text,
    CASE WHEN i.indisunique THEN substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*') END
FROM tables t JOIN pg_index i ON i.indrelid = t.oid JOIN pg_class x ON x.oid = i.indexrelid
WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = x.oid)
UNION ALL
SELECT 'trigger', t.name, g.tgname::text, CASE WHEN g.tgenabled = 'D' THEN 'disabled' ELSE 'enabled' END
FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid WHERE NOT g.tgisinternal
UNION ALL
SELECT 'policy', t.name, p.polname::text, NULL FROM tables t JOIN pg_policy p ON p.polrelid = t.oid
UNION ALL
SELECT CASE c.contype WHEN 'c' THEN 'check' WHEN 'p' THEN 'primary key' ELSE 'unique constraint' END, t.name,
    pg_get_constraintdef(c.oid), NULL
FROM tables t JOIN pg_constraint c ON c.conrelid = t.oid WHERE c.contype IN ('c', 'p', 'u')
UNION ALL
SELECT 'function', proname::text, proname::text, CASE WHEN prorettype = 'trigger'::regtype THEN prosrc END
FROM pg_proc WHERE pronamespace = to_regnamespace('ficha')
