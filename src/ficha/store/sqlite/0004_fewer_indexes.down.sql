CREATE INDEX events_by_account ON events (account_id);
