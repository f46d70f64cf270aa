-- Until when somebody leads the sweeps, how many leases and parked jobs are overdue, and whether there is any active job.
SELECT
    (SELECT {leader_until} FROM ficha.leaders WHERE name = {duty}),
    (SELECT count(*) FROM (
        SELECT 1 FROM ficha.leases
        WHERE expires_at < {late} OR (deadline_at < {late} AND (heartbeat_at IS NULL OR heartbeat_at >= deadline_at))
        LIMIT {most}
    ) AS over),
    (SELECT count(*) FROM (
        SELECT 1 FROM ficha.parked WHERE due_at < {late} AND behind IS NULL LIMIT {most}
    ) AS due),
    (SELECT count(*) FROM (
        SELECT 1 FROM ficha.leases UNION ALL SELECT 1 FROM ficha.ready UNION ALL SELECT 1 FROM ficha.parked LIMIT 1
    ) AS active)
