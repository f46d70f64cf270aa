DROP TABLE worker_counts;
DROP TABLE workers;
