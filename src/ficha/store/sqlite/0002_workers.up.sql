-- Who works here. A worker writes its own row when it starts, with its heartbeats, and when it stops.
CREATE TABLE workers (
    name TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pools TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    version TEXT NOT NULL,
    heartbeat_ms INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    stopped_at INTEGER
) STRICT, WITHOUT ROWID;

-- What became of the runs of every worker, alive or gone.
CREATE TABLE worker_counts (
    worker TEXT NOT NULL,
    kind TEXT NOT NULL,
    runs INTEGER NOT NULL,
    busy_us INTEGER NOT NULL,
    PRIMARY KEY (worker, kind)
) STRICT, WITHOUT ROWID;

-- Runs under way will be counted when they end, so they are counted as begun.
INSERT INTO worker_counts (worker, kind, runs, busy_us)
SELECT worker, 'claimed', count(*), 0 FROM leases WHERE worker IS NOT NULL GROUP BY worker;
