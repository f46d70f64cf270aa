-- The oldest of the newest commits: up to `most` events in all, and up to `most` commits.
SELECT number FROM (
    SELECT number, sum(size) OVER (ORDER BY number DESC) - size AS newer FROM ficha.commits
    ORDER BY number DESC LIMIT {most}
) AS newest WHERE newer < {most} ORDER BY number LIMIT 1
