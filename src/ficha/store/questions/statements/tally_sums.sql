SELECT worker, kind, CAST(sum(runs) AS bigint) AS runs, CAST(sum(busy_us) AS bigint) AS busy_us
FROM ficha.worker_counts GROUP BY worker, kind
