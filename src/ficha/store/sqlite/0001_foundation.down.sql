DROP VIEW job_states;
DROP TABLE lanes;
DROP TABLE events;
DROP TABLE leaders;
DROP TABLE contents;
DROP TABLE pools;
DROP TABLE batches;
DROP TABLE reservations;
DROP TABLE keys;
-- Dropping a table runs no trigger, so the ledger goes with the rest.
DROP TABLE entries;
DROP TABLE steps;
DROP TABLE checkpoints;
DROP TABLE leases;
DROP TABLE parked;
DROP TABLE ready;
DROP TABLE jobs;
DROP TABLE accounts;
