-- Waits for a transaction that is writing the same marker, and inserts only if that one did not commit. Rolled back.
INSERT INTO ficha.commits (committer, sequence, at, size, events) VALUES ($1, $2, now(), 0, '[]')
ON CONFLICT DO NOTHING RETURNING true
