-- One row, also for a role that row-level security shows none: then the first column is true.
SELECT row_security_active('ficha.migrations'),
    array_agg((version, name, works_from, steps_left, reached) ORDER BY version)
FROM ficha.migrations
