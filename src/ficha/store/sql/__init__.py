"""What the SQL stores share: the tables, how a job lies in its rows, and the questions that are asked alike."""
