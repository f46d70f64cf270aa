-- The queued jobs of a session. The account is compared as an expression, so that no database walks over all jobs of a
-- large account: a session has few.
SELECT {id}
FROM ficha.jobs j
WHERE j.session = {session} AND j.account_id || '' = {account} AND j.status = 'queued'
    AND NOT EXISTS (SELECT 1 FROM ficha.leases l WHERE l.job_id = j.id)
ORDER BY j.id
LIMIT {limit}
