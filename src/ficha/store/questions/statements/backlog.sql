-- What is overdue and what is still to be sent. There are as many leases as running jobs; the rest is the first of an index,
-- or is counted up to a limit.
WITH moment AS MATERIALIZED ({moment})
SELECT
    {at},
    (SELECT count(*) FROM ficha.leases CROSS JOIN moment
        WHERE expires_at <= at OR (deadline_at <= at AND (heartbeat_at IS NULL OR heartbeat_at >= deadline_at))),
    (SELECT {first_expiry} FROM ficha.leases WHERE expires_at <= (SELECT at FROM moment)),
    (SELECT {first_deadline} FROM ficha.leases
        WHERE deadline_at <= (SELECT at FROM moment) AND (heartbeat_at IS NULL OR heartbeat_at >= deadline_at)),
    (SELECT {first_due} FROM ficha.parked WHERE due_at <= (SELECT at FROM moment)),
    (SELECT count(*) FROM (SELECT 1 FROM ficha.deliveries WHERE state = 'pending' LIMIT {limit}) AS messages),
    (SELECT {first_due} FROM ficha.deliveries WHERE state = 'pending'),
    (SELECT count(*) FROM (SELECT 1 FROM ficha.hooks LIMIT {limit}) AS owed),
    (SELECT {first_due} FROM ficha.hooks)
FROM moment
