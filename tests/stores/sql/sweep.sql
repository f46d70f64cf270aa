WITH moment AS MATERIALIZED (
    SELECT at, at - $2::bigint * interval '1 millisecond' AS stuck_at,
        at - $3::bigint * interval '1 millisecond' AS old_at, at - $5::bigint * interval '1 millisecond' AS kept_at
    FROM (
        SELECT coalesce('epoch'::timestamptz + $1::bigint * interval '1 microsecond', clock_timestamp()) AS at
    ) AS clock
), held AS MATERIALIZED (
    SELECT job_id, heartbeat_at <= stuck_at AS is_stuck, started_at <= old_at AS is_old,
        expires_at <= at OR (deadline_at <= at AND (heartbeat_at IS NULL OR heartbeat_at >= deadline_at)) AS is_over
    FROM moment
    CROSS JOIN ficha.leases
    WHERE expires_at <= at OR deadline_at <= at OR heartbeat_at <= stuck_at OR started_at <= old_at
)
SELECT 'now', CAST ((extract(epoch FROM at) * 1000000)::bigint AS text), NULL, NULL
FROM moment
UNION ALL
SELECT 'job', job_id::text, NULL, NULL
FROM (SELECT job_id FROM held WHERE is_over LIMIT $4::bigint) AS over
UNION ALL
SELECT 'job', job_id::text, NULL, NULL
FROM (SELECT job_id FROM held WHERE is_stuck LIMIT $4::bigint) AS stuck
UNION ALL
SELECT 'job', job_id::text, NULL, NULL
FROM (SELECT job_id FROM held WHERE is_old LIMIT $4::bigint) AS old
UNION ALL
SELECT 'job', job_id::text, NULL, NULL
FROM (
    SELECT job_id
    FROM ficha.parked
    WHERE due_at <= (SELECT at FROM moment)
    ORDER BY due_at
    LIMIT $4::bigint
) AS parked_until
UNION ALL
SELECT 'job', job_id::text, NULL, NULL
FROM (
    SELECT job_id
    FROM ficha.parked
    WHERE behind IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ficha.leases WHERE leases.job_id = parked.behind)
    LIMIT $4::bigint
) AS behind_nobody
UNION ALL
SELECT 'job', job_id::text, NULL, NULL
FROM (
    SELECT job_id
    FROM ficha.parked
    WHERE wait_until_at <= (SELECT at FROM moment) AND started_at IS NULL
    ORDER BY wait_until_at
    LIMIT $4::bigint
) AS parked_too_long
UNION ALL
SELECT 'job', job_id::text, NULL, NULL
FROM (
    SELECT job_id
    FROM ficha.ready
    WHERE wait_until_at <= (SELECT at FROM moment) AND started_at IS NULL
    ORDER BY wait_until_at
    LIMIT $4::bigint
) AS ready_too_long
UNION ALL
SELECT 'job', job_id::text, NULL, NULL
FROM (
    SELECT job_id
    FROM ficha.ready
    WHERE ages_at <= (SELECT at FROM moment)
    ORDER BY ages_at
    LIMIT $4::bigint
) AS ageing
UNION ALL
SELECT 'reservation', id::text, NULL, NULL
FROM (
    SELECT id
    FROM ficha.reservations
    WHERE state = 'active' AND expires_at <= (SELECT at FROM moment)
    ORDER BY expires_at
    LIMIT $4::bigint
) AS expired
UNION ALL
SELECT 'reservation', id::text, NULL, NULL
FROM (
    SELECT id
    FROM ficha.reservations
    WHERE state <> 'active' AND expires_at <= (SELECT kept_at FROM moment)
    ORDER BY expires_at
    LIMIT $4::bigint
) AS ended
UNION ALL
SELECT 'key', account_id, scope, key
FROM (
    SELECT account_id, scope, key
    FROM ficha.keys
    WHERE expires_at <= (SELECT at FROM moment)
    ORDER BY expires_at
    LIMIT $4::bigint
) AS expired_keys
UNION ALL
SELECT 'session', account_id, NULL, NULL
FROM (
    SELECT account_id
    FROM ficha.page_sessions
    WHERE next_at <= (SELECT at FROM moment)
    ORDER BY next_at
    LIMIT $4::bigint
) AS ending
UNION ALL
SELECT 'next', pool, CAST ((extract(epoch FROM at) * 1000000)::bigint AS text), NULL
FROM (
    SELECT pool, min(due_at) AS at
    FROM (
        SELECT pool, due_at
        FROM ficha.parked
        WHERE due_at > (SELECT at FROM moment) AND behind IS NULL
        ORDER BY due_at
        LIMIT $4::bigint
    ) AS later
    GROUP BY pool
) AS following;
