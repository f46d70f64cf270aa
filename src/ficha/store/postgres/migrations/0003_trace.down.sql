ALTER TABLE ficha.jobs DROP COLUMN trace_context;
