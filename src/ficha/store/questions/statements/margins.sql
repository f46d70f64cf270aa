-- By the UTC day of the submit, tool and plan: what jobs earned in credits, and what their providers took.
SELECT day, tool, plan, count(*), CAST(sum(credits) AS bigint), CAST(sum(provider_cost) AS bigint)
FROM (
    SELECT {created_at} / 86400000000 AS day, tool, plan, charged - refunded AS credits, provider_cost
    FROM ficha.jobs
    WHERE provider_cost IS NOT NULL AND created_at >= {since} AND created_at < {until}
) AS costly
GROUP BY day, tool, plan
ORDER BY day, tool, plan
LIMIT {limit}
