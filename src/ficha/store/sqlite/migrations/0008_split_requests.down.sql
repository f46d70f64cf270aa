DROP INDEX parts_of_account;
DROP INDEX jobs_of_request;
ALTER TABLE jobs DROP COLUMN part_of;
