"""From a database's URL to a store: the one place that knows which stores there are."""

from __future__ import annotations

from typing import cast
from urllib.parse import unquote, urlsplit

from .base import Store, StoreError
from .memory import MemoryStore
from .migrations import Migrator
from .postgres import PostgresStore
from .sqlite import SqliteStore

FORMS = "sqlite:///file.db, sqlite:////absolute/file.db, postgresql://user@host/database or memory:"


async def connect(url: str) -> Store:
    """The store for a URL, not yet open. An embedded database is brought to the present schema first."""
    store = store_for(url)
    if isinstance(store, SqliteStore):
        await store.migrate()
    return store


def store_for(url: str) -> Store:
    scheme = urlsplit(url).scheme
    if scheme == "memory":
        return MemoryStore()
    if scheme == "sqlite":
        return SqliteStore(_path(url))
    if scheme in ("postgresql", "postgres"):
        return PostgresStore(url)
    raise StoreError(f"the database URL {hidden(url)!r} is none of: {FORMS}")


def migrator_for(url: str) -> Migrator:
    """What changes the schema of the database at a URL."""
    store = store_for(url)
    if isinstance(store, MemoryStore):
        raise StoreError("a memory: database has no schema to migrate")
    return cast(Migrator, store)


def row_level_security_for(url: str) -> PostgresStore:
    """What turns row-level security on and off at a URL."""
    store = store_for(url)
    if not isinstance(store, PostgresStore):
        raise StoreError(f"row-level security is a feature of PostgreSQL; {hidden(url)} is no PostgreSQL database")
    return store


def _path(url: str) -> str:
    path = url.removeprefix("sqlite:///")
    if path == url or not path:
        raise StoreError(
            f"the database URL {url!r} names no file; write sqlite:///file.db or sqlite:////absolute/file.db"
        )
    return unquote(path)


def hidden(url: str) -> str:
    """A URL that may be shown: without its password."""
    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":***@") if parts.password else url
