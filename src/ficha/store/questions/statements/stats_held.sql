SELECT l.status, coalesce(c.name, ''), count(*), count(*) FILTER (WHERE l.heartbeat_at < {stuck_at})
FROM ficha.leases l LEFT JOIN ficha.checkpoints c ON c.job_id = l.job_id GROUP BY 1, 2
