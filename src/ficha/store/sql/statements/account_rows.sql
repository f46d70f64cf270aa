{account},
(SELECT count(*) FROM ficha.jobs n WHERE n.account_id = {account}),
(SELECT count(*) FROM ficha.ready n WHERE n.account_id = {account})
    + (SELECT count(*) FROM ficha.parked n WHERE n.account_id = {account})
    + (SELECT count(*) FROM ficha.leases n WHERE n.account_id = {account}),
(SELECT count(*) FROM ficha.ready n WHERE n.account_id = {account})
    + (SELECT count(*) FROM ficha.parked n WHERE n.account_id = {account} AND n.behind IS NOT NULL)
    + (SELECT count(*) FROM ficha.leases n WHERE n.account_id = {account}),
(SELECT count(*) FROM ficha.parked n WHERE n.account_id = {account} AND n.due_at IS NULL),
(SELECT count(*) FROM ficha.reservations n WHERE n.account_id = {account} AND n.state = 'active'),
(SELECT count(*) FROM ficha.files n WHERE n.account_id = {account} AND n.state <> 'removed'),
(SELECT CAST(coalesce(sum(n.size), 0) AS bigint) FROM ficha.files n
    WHERE n.account_id = {account} AND n.state <> 'removed'),
(SELECT count(*) FROM ficha.accounts n WHERE n.id = {account} AND n.latest_job IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM ficha.ready h WHERE h.job_id = n.latest_job)
    AND NOT EXISTS (SELECT 1 FROM ficha.parked h WHERE h.job_id = n.latest_job)
    AND NOT EXISTS (SELECT 1 FROM ficha.leases h WHERE h.job_id = n.latest_job))
