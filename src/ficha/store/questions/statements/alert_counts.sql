-- The counts that alerts need. There are as many leases as running jobs; the rest is counted up to a limit.
WITH moment AS MATERIALIZED ({moment})
SELECT
    (SELECT count(*) FROM ficha.leases CROSS JOIN moment
        WHERE expires_at <= at OR heartbeat_at <= stuck_at
            OR (deadline_at <= at AND (heartbeat_at IS NULL OR heartbeat_at >= deadline_at))),
    (SELECT count(*) FROM (SELECT 1 FROM ficha.jobs WHERE dead_at IS NOT NULL LIMIT {limit}) AS letters),
    (SELECT count(*) FROM (
        SELECT 1 FROM ficha.deliveries WHERE state = 'pending' AND due_at <= (SELECT old_at FROM moment) LIMIT {limit}
    ) AS messages),
    (SELECT count(*) FROM (
        SELECT 1 FROM ficha.hooks WHERE due_at <= (SELECT old_at FROM moment) LIMIT {limit}
    ) AS owed)
