"""What one hostile account takes from the others: their submits beside its attacks, on a real server."""
