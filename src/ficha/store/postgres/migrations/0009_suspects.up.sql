-- kind: additive
-- Ready jobs with a lost run, which a worker claims while it runs nothing else. There are few.
-- step: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS ready_suspects ON ficha.ready (pool, rank, job_id) WHERE recoveries > 0;
