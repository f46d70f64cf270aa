-- One statement, so that no count is lost or seen twice. It does nothing while another process folds the counts.
WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(hashtext('ficha worker counts')) AS is_mine),
gone AS (
    DELETE FROM ficha.worker_counts WHERE (SELECT is_mine FROM alone) AND (worker, kind) IN (
        SELECT worker, kind FROM ficha.worker_counts GROUP BY worker, kind HAVING count(*) > 1
    ) RETURNING worker, kind, runs, busy_us
)
INSERT INTO ficha.worker_counts (worker, kind, runs, busy_us)
SELECT worker, kind, sum(runs), sum(busy_us) FROM gone GROUP BY worker, kind
