-- kind: additive
-- The API key that a job was submitted with, so that all jobs of a leaked key can be found.

ALTER TABLE jobs ADD COLUMN submitted_by TEXT;
ALTER TABLE bulk_acts ADD COLUMN key_id TEXT;
CREATE INDEX jobs_by_api_key ON jobs (submitted_by, id) WHERE submitted_by IS NOT NULL;
