-- Pools, and how many jobs are held, ready and parked in each. No index has parked jobs by pool: it would be written with
-- every job that is parked. So all of them are counted in one scan.
SELECT
    (SELECT count(*) FROM ficha.leases l WHERE l.pool = t.name),
    (SELECT count(*) FROM ficha.ready r WHERE r.pool = t.name),
    coalesce(p.jobs, 0),
    {pool}
FROM ficha.pools t LEFT JOIN (SELECT pool, count(*) AS jobs FROM ficha.parked GROUP BY pool) p ON p.pool = t.name
ORDER BY t.name
