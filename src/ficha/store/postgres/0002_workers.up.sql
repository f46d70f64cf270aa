-- Who works here. A worker writes its own row when it starts, with its heartbeats, and when it stops.
CREATE TABLE workers (
    name          text COLLATE "C" PRIMARY KEY,
    host          text NOT NULL,
    pid           bigint NOT NULL,
    pools         jsonb NOT NULL,
    concurrency   bigint NOT NULL,
    version       text NOT NULL,
    heartbeat_ms  bigint NOT NULL,
    started_at    timestamptz NOT NULL,
    seen_at       timestamptz NOT NULL,
    stopped_at    timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What became of the runs of every worker, alive or gone; the sum of a worker's rows of a kind counts. Each batch adds
-- rows of its own: were there one to change, the batches of a worker would wait for each other, and while a long
-- transaction elsewhere keeps its old versions alive, walk over them. Now and then rows are folded together.
CREATE TABLE worker_counts (
    worker   text COLLATE "C" NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    runs     bigint NOT NULL,
    busy_us  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Runs under way will be counted when they end, so they are counted as begun.
INSERT INTO worker_counts (worker, kind, runs, busy_us)
SELECT worker, 'claimed', count(*), 0 FROM leases WHERE worker IS NOT NULL GROUP BY worker;

-- Where row-level security is on, nobody's in particular is nobody's to read.
DO $$
BEGIN
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = 'leaders'::regclass) THEN
        ALTER TABLE workers ENABLE ROW LEVEL SECURITY;
        ALTER TABLE worker_counts ENABLE ROW LEVEL SECURITY;
    END IF;
END
$$;
