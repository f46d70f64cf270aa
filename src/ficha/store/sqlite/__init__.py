"""A store in one SQLite file: nothing to install or run, for one machine and any number of processes on it."""

from .store import SqliteStore

__all__ = ["SqliteStore"]
