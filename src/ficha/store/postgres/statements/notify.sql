-- A hint may be lost, so nobody waits for the disk: the setting holds for this one statement's transaction.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('{channel}', hint) FROM unnest($1::text[]) AS w (hint)
