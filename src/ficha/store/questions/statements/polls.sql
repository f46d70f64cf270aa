-- Jobs of some tools whose providers are to be polled, now or later, each with the time.
SELECT {job_id}, {poll_at}, {at}
FROM ficha.leases l JOIN ficha.jobs j ON j.id = l.job_id CROSS JOIN ({moment}) AS m
WHERE l.poll_at IS NOT NULL AND {tool}
ORDER BY l.poll_at, l.job_id
LIMIT {limit}
