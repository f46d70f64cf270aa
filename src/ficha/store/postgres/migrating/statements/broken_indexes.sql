-- Indexes that are incomplete, and that nobody is building: an interrupted CREATE INDEX CONCURRENTLY left them.
SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE NOT i.indisvalid AND c.relnamespace = to_regnamespace('ficha')
    AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
ORDER BY c.relname
