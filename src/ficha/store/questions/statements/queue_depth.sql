-- A pool's queue, for whoever decides how many workers there should be, and asks every few seconds. The count of ready jobs
-- ends at a limit. Held ones are counted in full, as every claim counts them.
SELECT
    (SELECT count(*) FROM ficha.leases l WHERE l.pool = t.name),
    (SELECT count(l.worker) FROM ficha.leases l WHERE l.pool = t.name),
    (SELECT count(*) FROM (SELECT 1 FROM ficha.ready r WHERE r.pool = t.name LIMIT {limit}) counted),
    {pool}
FROM ficha.pools t WHERE t.name = {name}
