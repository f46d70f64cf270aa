-- The number of the last migration; {hidden} for a role that row-level security shows no rows.
SELECT CASE WHEN row_security_active('ficha.migrations') THEN {hidden} ELSE coalesce(max(version), 0) END
FROM ficha.migrations
