-- $1: an index of our schema. Whether it is complete, and the process that is building it now, if any.
SELECT i.indisvalid, (SELECT p.pid FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid LIMIT 1)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relname = $1 AND c.relnamespace = to_regnamespace('ficha')
