-- One row, also for a role from which row-level security hides all rows: then the first column is true.
SELECT row_security_active('ficha.migrations'),
    array_agg((version, name, works_from, steps_left, reached) ORDER BY version)
FROM ficha.migrations
