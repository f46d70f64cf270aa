-- kind: additive
-- The request that a job is a part of, if its tool split a large one.
ALTER TABLE ficha.jobs ADD COLUMN IF NOT EXISTS part_of uuid;

-- step: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_of_request ON ficha.jobs (part_of, id) WHERE part_of IS NOT NULL;

-- step: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS parts_of_account ON ficha.jobs (account_id, id) WHERE part_of IS NOT NULL;
