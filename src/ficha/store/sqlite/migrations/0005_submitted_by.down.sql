DROP INDEX jobs_by_api_key;
ALTER TABLE bulk_acts DROP COLUMN key_id;
ALTER TABLE jobs DROP COLUMN submitted_by;
