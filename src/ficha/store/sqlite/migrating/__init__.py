"""Migrates the schema of a file: see `migrator.py`."""
