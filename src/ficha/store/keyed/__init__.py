"""Keyed records: rare kinds that both SQL stores load by key, lock, write, delete and list alike."""
