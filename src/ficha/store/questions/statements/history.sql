-- A job with its stored events after a number: one statement, so that both are of one moment.
SELECT {job}, (SELECT count(*) FROM ficha.events b WHERE b.job_id = j.id AND b.number <= {after}), {event}
FROM ficha.jobs j {hot_rows}
LEFT JOIN (
    SELECT * FROM ficha.events k WHERE k.job_id = {job_id} AND k.number > {after} ORDER BY k.number LIMIT {limit}
) AS e ON e.job_id = j.id
WHERE j.id = {job_id} ORDER BY e.number
