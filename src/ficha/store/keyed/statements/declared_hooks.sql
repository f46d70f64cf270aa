-- All declared hooks, and the time. Without any there is one row, of which only the time is read.
SELECT {at}, {hook} FROM ({moment}) AS m LEFT JOIN ficha.declared_hooks t ON true ORDER BY t.name LIMIT {limit}
