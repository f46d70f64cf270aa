DROP TABLE configurations;
