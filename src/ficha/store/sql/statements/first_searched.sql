-- The first of the newest commits that have so many events in all, and are no more than that.
SELECT number FROM (
    SELECT number, sum(size) OVER (ORDER BY number DESC) - size AS newer FROM commits ORDER BY number DESC LIMIT {most}
) AS newest WHERE newer < {most} ORDER BY number LIMIT 1
