-- There are no more leases than jobs that run, and who looks for some of them walks over all. An index on their time or
-- holder would be written twice for every job, and what it finds is asked for once a second at the most.
DROP INDEX leases_by_expiry;
DROP INDEX leases_by_worker;
