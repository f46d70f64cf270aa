-- Hooks that are still to be run: all, or those of some names (if any are given), or (if asked for) those that are due.
SELECT {hook}
FROM ficha.hooks t
WHERE ({any_name} OR {named}) AND ({any_time} OR t.due_at <= (SELECT at FROM ({moment}) AS moment))
ORDER BY t.due_at, t.job_id, t.name
LIMIT {limit}
