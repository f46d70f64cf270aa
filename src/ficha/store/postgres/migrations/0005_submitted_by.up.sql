-- kind: additive
-- The API key that a job was submitted with, so that all jobs of a leaked key can be found.

ALTER TABLE ficha.jobs ADD COLUMN IF NOT EXISTS submitted_by uuid;
ALTER TABLE ficha.bulk_acts ADD COLUMN IF NOT EXISTS key_id uuid;

-- step: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_of_api_key ON ficha.jobs (submitted_by, id)
    WHERE submitted_by IS NOT NULL;
