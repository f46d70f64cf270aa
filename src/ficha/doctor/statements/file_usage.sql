-- Accounts whose file usage disagrees with their files.
SELECT coalesce(u.account_id, f.account_id)
FROM ficha.file_usage u
FULL JOIN (
    SELECT account_id, count(*) AS files, sum(size) AS size
    FROM ficha.files WHERE state <> 'removed' GROUP BY account_id
) AS f ON f.account_id = u.account_id
WHERE coalesce(u.files, 0) <> coalesce(f.files, 0) OR coalesce(u.size, 0) <> coalesce(f.size, 0)
ORDER BY 1
LIMIT {limit}
