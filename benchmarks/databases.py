"""Fresh databases, one for each measurement: none inherits what the one before it left behind."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol

import apsw
import asyncpg

from ficha.store.sqlite.filesystem import filesystem_of
from tests.postgres import Server, new_database, server_folder

IN_MEMORY: Final = ("tmpfs", "ramfs")
MOUNTS: Final = Path("/proc/self/mountinfo")


class Kind(Protocol):
    """One kind of database."""

    name: str

    async def version(self) -> str: ...

    def filesystem(self) -> str:
        """What its files lie on; a durable write to memory would be no durable write."""

    def fresh(self) -> AbstractAsyncContextManager[str]:
        """The URL of an empty database."""

    async def settle(self, url: str) -> None:
        """What a database does for itself as time goes by: figures for its planner, no dead rows."""


class Postgres(Kind):
    name = "PostgreSQL"

    def __init__(self, server: Server) -> None:
        self._server = server

    async def version(self) -> str:
        connection = await asyncpg.connect(self._server.url())
        try:
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                assert await connection.fetchval("SELECT current_setting($1)", setting) == "on"
            return str(await connection.fetchval("SHOW server_version"))
        finally:
            await connection.close()

    def filesystem(self) -> str:
        return _filesystem(self._server.folder)

    def fresh(self) -> AbstractAsyncContextManager[str]:
        return new_database(self._server)

    async def settle(self, url: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            tables = await connection.fetchval(
                "SELECT string_agg(oid::regclass::text, ', ') FROM pg_class "
                "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            )
            await connection.execute(f"VACUUM (ANALYZE) {tables}")
        finally:
            await connection.close()


class Sqlite(Kind):
    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def version(self) -> str:
        return apsw.sqlite_lib_version()

    def filesystem(self) -> str:
        return _filesystem(self._folder)

    @contextlib.asynccontextmanager
    async def fresh(self) -> AsyncIterator[str]:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            yield f"sqlite:///{folder}/bench.db"

    async def settle(self, url: str) -> None:
        """Nothing: it plans without figures, and checkpoints its log by itself."""


@contextlib.contextmanager
def databases(only: str | None) -> Iterator[list[Kind]]:
    """The databases to measure on, and their end."""
    with contextlib.ExitStack() as stack:
        kinds: list[Kind] = []
        if only in (None, "postgres"):
            server = stack.enter_context(server_folder())
            server.start()
            kinds.append(Postgres(server))
        if only in (None, "sqlite"):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ficha-", dir=_on_disk()))
            kinds.append(Sqlite(Path(folder)))
        yield kinds


def _on_disk() -> str:
    """A folder for temporary files, on a disk if there is one."""
    places = [tempfile.gettempdir(), "/var/tmp", os.getcwd()]  # noqa: S108 (a folder of our own is made in it)
    return next((p for p in places if os.path.isdir(p) and _filesystem(Path(p)) not in IN_MEMORY), places[0])


def _filesystem(path: Path) -> str:
    if not MOUNTS.exists():
        return "unknown"
    return filesystem_of(os.path.realpath(path), MOUNTS.read_text("utf-8", "surrogateescape")) or "unknown"
