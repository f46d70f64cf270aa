"""The doctor's own connection: every check queries through it, whichever database it is.

It is apart from the store, so that it works where the store cannot be opened. It changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from ..extras import needs_extra
from ..store.base import StoreError
from ..store.connect import kind_of, postgres_settings, sqlite_file
from ..store.schema_name import in_schema
from ..store.sql.dialect import Dialect, sql_file

if TYPE_CHECKING:
    import apsw

    from ..store.postgres.connections import Connection

TIMEOUT_S = 30.0
"""How long one statement may take."""


class Looking:
    """Queries a database. Statements name Ficha's schema; the caller fills in `{name}` in their files."""

    kind: Literal["postgresql", "sqlite"]
    dialect: Dialect

    def __init__(self) -> None:
        self.reads = 0

    async def ask(self, name: str, *values: Any, **parts: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement file of this package."""
        return await self.rows(sql_file(__package__, name).format(**parts) if parts else self.text(name), *values)

    def text(self, name: str) -> str:
        return sql_file(__package__, name)

    async def rows(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        self.reads += 1
        return await self._rows(text, values)

    async def _rows(self, text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        raise NotImplementedError


class LookingAtPostgres(Looking):
    kind = "postgresql"

    def __init__(self, connection: Connection, settings: dict[str, Any]) -> None:
        from ..store.postgres.dialect import SQL

        super().__init__()
        self.dialect = SQL
        self.connection = connection
        self.settings = settings
        """What the URL says about the store: `committers`, `pool_size` and others."""

    async def _rows(self, text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        from ..store.postgres.connections import speaking

        with speaking(self.connection):
            return [tuple(row) for row in await self.connection.fetch(text, *values)]


class LookingAtSqlite(Looking):
    kind = "sqlite"

    def __init__(self, db: apsw.Connection, path: str) -> None:
        from ..store.sqlite.dialect import SQL

        super().__init__()
        self.dialect = SQL
        self.db = db
        self.path = path

    async def _rows(self, text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        import apsw

        from ..store.sqlite.errors import translate

        def run() -> list[tuple[Any, ...]]:
            return list(self.db.execute(in_schema(text, ""), values))

        try:
            return await asyncio.to_thread(run)
        except apsw.Error as error:
            raise translate(error, self.path) from error


@asynccontextmanager
async def looking_at(url: str, schema: str) -> AsyncIterator[Looking]:
    """Connects to a database. Raises StoreError if there is none to check."""
    match kind_of(url):
        case "sqlite":
            async with _looking_at_sqlite(sqlite_file(url)) as db:
                yield db
        case "postgresql":
            async with _looking_at_postgres(url, schema) as database:
                yield database
        case _:
            raise StoreError("a memory: database exists only in its process; name a file or a PostgreSQL database")


@asynccontextmanager
async def _looking_at_sqlite(path: str) -> AsyncIterator[Looking]:
    import os

    import apsw

    from ..store.sqlite.connection import Patience, connect, refuse_old_library
    from ..store.sqlite.errors import translate
    from ..store.sqlite.filesystem import refuse_network

    refuse_old_library()
    refuse_network(path)
    if not os.path.exists(path):  # noqa: ASYNC240 (one look at a local disk)
        raise StoreError(f"there is no database {path}: check the path, or run `ficha migrate up`")
    try:
        db = connect(path, Patience(5.0), read_only=True)
        # SQLite opens the file with the first statement.
        db.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.Error as error:
        raise translate(error, path) from error
    try:
        yield LookingAtSqlite(db, path)
    finally:
        db.close(True)


@asynccontextmanager
async def _looking_at_postgres(url: str, schema: str) -> AsyncIterator[Looking]:
    with needs_extra("postgres"):
        from ..store.postgres.connections import connector, speaking

    plain, settings = postgres_settings(url, schema)
    name, prepared = settings["schema"], settings.get("prepared", True)
    connect = connector(plain, schema=name, prepared=prepared, timeout_s=TIMEOUT_S)
    with speaking():
        connection = await connect()
    try:
        yield LookingAtPostgres(connection, settings)
    finally:
        connection.terminate()
