-- kind: additive
-- Bulk refunds of a part. Earlier releases would refund all, so they are due by a column that those do not know.

ALTER TABLE bulk_acts ADD COLUMN amount INTEGER;
ALTER TABLE bulk_acts ADD COLUMN share TEXT;
ALTER TABLE bulk_acts ADD COLUMN part_due_at INTEGER;
