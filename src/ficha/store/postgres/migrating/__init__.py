"""Migrates the schema while others use it: see `migrator.py`."""

from .migrator import PostgresMigrator

__all__ = ["PostgresMigrator"]
