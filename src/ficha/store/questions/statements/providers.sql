-- Every provider of which something is stored, with the time.
SELECT n.name, {at}, {state}, {outage}
FROM (SELECT name FROM ficha.provider_states UNION SELECT provider FROM ficha.provider_outages) n
LEFT JOIN ficha.provider_states s ON s.name = n.name
LEFT JOIN ficha.provider_outages o ON o.provider = n.name
CROSS JOIN ({moment}) AS m
ORDER BY n.name
LIMIT {limit}
