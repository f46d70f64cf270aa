CREATE INDEX events_of_account ON events (account_id, number);
