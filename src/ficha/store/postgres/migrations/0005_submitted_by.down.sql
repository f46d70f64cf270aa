DROP INDEX IF EXISTS ficha.jobs_of_api_key;
ALTER TABLE ficha.bulk_acts DROP COLUMN IF EXISTS key_id;
ALTER TABLE ficha.jobs DROP COLUMN IF EXISTS submitted_by;
