-- Messages that may be sent now, the longest due first. Left out are those of owners and endpoints that have enough
-- under way, and those behind an earlier message about the same job to the same endpoint. The CASE is for PostgreSQL's
-- planner, which estimates that it keeps half: from a plain NOT it may conclude that hardly any are left, and sort all.
SELECT {delivery}
FROM ficha.deliveries t
WHERE t.state = 'pending' AND t.due_at <= (SELECT at FROM ({moment}) AS moment)
    AND ({any_owner} OR CASE WHEN {owned} THEN FALSE ELSE TRUE END)
    AND ({any_endpoint} OR CASE WHEN {at_endpoint} THEN FALSE ELSE TRUE END)
    AND NOT EXISTS (
        SELECT 1 FROM ficha.deliveries e
        WHERE e.state = 'pending' AND e.job_id = t.job_id AND e.endpoint_id = t.endpoint_id
            AND (e.created_at, e.id) < (t.created_at, t.id)
    )
ORDER BY t.due_at, t.id
LIMIT {limit}
