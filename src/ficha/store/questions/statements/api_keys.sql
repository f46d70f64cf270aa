-- API keys, each with the time. If there is no key, one row with the time alone.
SELECT coalesce({now}, {clock}), {used_at}, {key}
FROM (SELECT 1) AS one LEFT JOIN ({keys}) AS k ON true LEFT JOIN ficha.api_key_uses u ON u.key_id = k.id
ORDER BY k.id DESC
