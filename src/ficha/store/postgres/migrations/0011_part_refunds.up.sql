-- kind: additive
-- Bulk refunds of a part. Earlier releases would refund all, so they are due by a column that those do not know.

ALTER TABLE ficha.bulk_acts ADD COLUMN amount bigint;
ALTER TABLE ficha.bulk_acts ADD COLUMN share text;
ALTER TABLE ficha.bulk_acts ADD COLUMN part_due_at timestamptz;
