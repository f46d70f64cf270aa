-- kind: additive
-- The request that a job is a part of, if its tool split a large one.
ALTER TABLE jobs ADD COLUMN part_of TEXT;
CREATE INDEX jobs_of_request ON jobs (part_of, id) WHERE part_of IS NOT NULL;
CREATE INDEX parts_of_account ON jobs (account_id, id) WHERE part_of IS NOT NULL;
