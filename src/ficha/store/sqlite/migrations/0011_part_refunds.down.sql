UPDATE bulk_acts SET state = 'stopped', ended_at = part_due_at WHERE state = 'running' AND part_due_at IS NOT NULL;
ALTER TABLE bulk_acts DROP COLUMN part_due_at;
ALTER TABLE bulk_acts DROP COLUMN share;
ALTER TABLE bulk_acts DROP COLUMN amount;
