-- The first rank of each pool and priority, which is its oldest job, if that has never run; and the last heartbeat of each
-- pool. The first steps from one priority to the next through the index, so its time depends on the number of pools and
-- priorities, not of jobs; there are as many leases as running jobs.
WITH RECURSIVE heads (pool, rank) AS (
    SELECT p.name, (SELECT min(r.rank) FROM ficha.ready r WHERE r.pool = p.name) FROM ficha.pools p
    UNION ALL
    SELECT h.pool, (
        SELECT min(r.rank) FROM ficha.ready r WHERE r.pool = h.pool AND r.rank >= ((h.rank >> {bits}) + 1) << {bits}
    )
    FROM heads h WHERE h.rank IS NOT NULL
)
SELECT h.pool, h.rank, NULL FROM heads h WHERE EXISTS (
    SELECT 1 FROM ficha.ready r WHERE r.pool = h.pool AND r.rank = h.rank AND r.first_run_at IS NULL
)
UNION ALL
SELECT pool, NULL, {heard} FROM ficha.leases WHERE heartbeat_at IS NOT NULL GROUP BY pool
