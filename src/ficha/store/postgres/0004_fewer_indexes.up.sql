-- Every step of every job was written into a place of its account's own. Of an account's events only the newest are
-- asked for, and those are found among the newest of all.
DROP INDEX events_of_account;
