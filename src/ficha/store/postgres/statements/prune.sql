-- By the database's clock. The newest commit stays, so that the highest number can be read.
-- $1: the last commit that was deleted; $2: the time, or null for the database's clock; $3: how long commits are kept,
-- in ms; $4: how many, at most.
WITH oldest AS MATERIALIZED (SELECT number, at FROM ficha.commits WHERE number > $1 ORDER BY number LIMIT $4)
DELETE FROM ficha.commits USING oldest
WHERE commits.number = oldest.number AND commits.number < (SELECT max(number) FROM ficha.commits)
    AND oldest.at < coalesce('epoch'::timestamptz + $2::bigint * interval '1 microsecond', now())
        - $3::bigint * interval '1 millisecond'
RETURNING commits.number
