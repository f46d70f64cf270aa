UPDATE ficha.bulk_acts SET state = 'stopped', ended_at = now() WHERE state = 'running' AND part_due_at IS NOT NULL;
ALTER TABLE ficha.bulk_acts DROP COLUMN part_due_at;
ALTER TABLE ficha.bulk_acts DROP COLUMN share;
ALTER TABLE ficha.bulk_acts DROP COLUMN amount;
