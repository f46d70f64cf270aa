"""The store in PostgreSQL, over asyncpg."""

from .store import PostgresStore

__all__ = ["PostgresStore"]
