"""What the SQL stores share: the tables, how a job is stored in its rows, and the dialect protocol."""
