-- The hooks of which runs are still to be made, with how many: among those that are due first.
SELECT name, count(*), {due_at}
FROM (SELECT name, due_at FROM ficha.hooks ORDER BY due_at LIMIT {limit}) AS owed
GROUP BY name
ORDER BY name
