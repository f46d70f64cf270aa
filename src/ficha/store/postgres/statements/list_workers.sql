-- Counts and leases are added up for all workers at once: there are few rows, and there is no index by worker.
-- $1: the name after which the page begins; $2: how many; $3: a job with an older heartbeat (microseconds) is stuck.
WITH sums AS MATERIALIZED ({sums}),
page AS MATERIALIZED (
    SELECT name FROM (SELECT name FROM ficha.workers UNION SELECT worker FROM sums) AS known
    WHERE $1::text IS NULL OR name > $1 ORDER BY name LIMIT $2
)
SELECT page.name, counted.kinds, counted.runs, counted.busy_us, coalesce(held.running, 0), coalesce(held.stuck, 0),
    {worker}
FROM page
LEFT JOIN ficha.workers w ON w.name = page.name
LEFT JOIN (
    SELECT worker, array_agg(kind ORDER BY kind) AS kinds, array_agg(runs ORDER BY kind) AS runs,
        array_agg(busy_us ORDER BY kind) AS busy_us
    FROM sums GROUP BY worker
) AS counted ON counted.worker = page.name
LEFT JOIN (
    SELECT worker, count(*) AS running,
        count(*) FILTER (
            WHERE heartbeat_at < 'epoch'::timestamptz + $3::bigint * interval '1 microsecond'
        ) AS stuck
    FROM ficha.leases GROUP BY worker
) AS held ON held.worker = page.name
ORDER BY page.name
