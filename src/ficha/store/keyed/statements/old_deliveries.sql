-- Messages that ended long ago, the oldest first.
SELECT {id}
FROM ficha.deliveries t
WHERE t.ended_at <= (SELECT stuck_at FROM ({moment}) AS moment)
ORDER BY t.ended_at
LIMIT {limit}
