DROP TABLE worker_counts, workers;
