-- Accounts whose counters disagree with their rows in the hot tables and with their reservations.
SELECT a.id
FROM ficha.accounts a
LEFT JOIN (
    SELECT account_id, sum(active) AS active, sum(admitted) AS admitted, sum(parked) AS parked
    FROM (
        SELECT account_id, count(*) AS active, count(*) AS admitted, 0 AS parked FROM ficha.ready GROUP BY account_id
        UNION ALL
        SELECT account_id, count(*), count(*), 0 FROM ficha.leases GROUP BY account_id
        UNION ALL
        SELECT account_id, count(*), count(behind), count(*) FILTER (WHERE due_at IS NULL)
        FROM ficha.parked GROUP BY account_id
    ) AS hot
    GROUP BY account_id
) AS c ON c.account_id = a.id
LEFT JOIN (
    SELECT account_id, count(*) AS reserved FROM ficha.reservations WHERE state = 'active' GROUP BY account_id
) AS h ON h.account_id = a.id
WHERE a.active <> coalesce(c.active, 0) OR a.admitted <> coalesce(c.admitted, 0)
    OR a.parked <> coalesce(c.parked, 0) OR a.reserved <> coalesce(h.reserved, 0)
    OR (a.latest_job IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM ficha.ready l WHERE l.job_id = a.latest_job)
        AND NOT EXISTS (SELECT 1 FROM ficha.parked l WHERE l.job_id = a.latest_job)
        AND NOT EXISTS (SELECT 1 FROM ficha.leases l WHERE l.job_id = a.latest_job))
ORDER BY a.id
LIMIT {limit}
