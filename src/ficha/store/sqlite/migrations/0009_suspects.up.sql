-- kind: additive
-- Ready jobs with a lost run, which a worker claims while it runs nothing else. There are few.
CREATE INDEX ready_suspects ON ready (pool, rank, job_id) WHERE recoveries > 0;
