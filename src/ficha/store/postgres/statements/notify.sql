-- A hint may be lost, so it does not wait for the disk. The setting holds for this statement's transaction only.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('{channel}', hint) FROM unnest($1::text[]) AS w (hint)
