-- The waiting jobs, by plan, tool and pool. No other jobs are read.
SELECT j.plan, j.tool, j.pool, sum(w.ready), sum(w.parked)
FROM (
    SELECT job_id, 1 AS ready, 0 AS parked FROM ficha.ready UNION ALL SELECT job_id, 0, 1 FROM ficha.parked
) AS w JOIN ficha.jobs j ON j.id = w.job_id
GROUP BY j.plan, j.tool, j.pool
ORDER BY j.plan, j.tool, j.pool
