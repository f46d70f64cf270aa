-- All schedules, and the time. Without any there is one row, of which only the time is read.
SELECT {at}, {schedule} FROM ({moment}) AS m LEFT JOIN ficha.schedules t ON true ORDER BY t.name LIMIT {limit}
