-- Accounts whose balance is not that of the last line of their ledger.
SELECT a.id
FROM ficha.accounts a LEFT JOIN ficha.entries e ON e.account_id = a.id AND e.number = a.entries
WHERE a.balance <> coalesce(e.balance_after, 0)
ORDER BY a.id
LIMIT {limit}
