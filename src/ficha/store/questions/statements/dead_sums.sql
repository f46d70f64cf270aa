-- The newest dead letters, summed up by tool and by the beginning of their error.
SELECT tool, error, count(*), CAST(sum(cost) AS bigint), {first_at}, {last_at}, max(job_id)
FROM (
    SELECT tool, substr(coalesce(error, ''), 1, {length}) AS error, cost, dead_at, {id} AS job_id
    FROM ficha.jobs WHERE dead_at IS NOT NULL ORDER BY id DESC LIMIT {limit}
) AS newest
GROUP BY tool, error
