-- A row per migration. Where there is none, and where row-level security hides all from this role (then the first column
-- is true), one row with an empty version.
SELECT row_security_active('ficha.migrations'), m.version, m.name, m.works_from, m.steps_left, m.reached
FROM (VALUES (1)) AS always LEFT JOIN ficha.migrations m ON true
ORDER BY m.version
