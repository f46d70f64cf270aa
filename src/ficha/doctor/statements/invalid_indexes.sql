SELECT x.relname::text FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
WHERE x.relnamespace = to_regnamespace('ficha') AND NOT (i.indisvalid AND i.indisready)
ORDER BY 1
