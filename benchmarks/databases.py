"""Fresh databases, one for each measurement: none inherits what the one before it left behind."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol
from uuid import uuid4

import apsw
import asyncpg

from ficha.store.sqlite.filesystem import filesystem_of
from tests.support.postgres import Server, server_folder

from .peer import Peer, Wrong

IN_MEMORY: Final = ("tmpfs", "ramfs")
MOUNTS: Final = Path("/proc/self/mountinfo")


class Kind(Protocol):
    """One kind of database."""

    name: str

    async def version(self) -> str: ...

    def filesystem(self) -> str:
        """What its files lie on; a durable write to memory would be no durable write."""

    def fresh(self, peer: Peer | None = None) -> AbstractAsyncContextManager[str]:
        """The URL of an empty database; for a peer, of one with its schema."""

    async def settle(self, url: str) -> None:
        """What a database does for itself as time goes by: figures for its planner, no dead rows."""


class Postgres(Kind):
    name = "PostgreSQL"

    def __init__(self, server: Server, *, drops: bool = True) -> None:
        self._server = server
        self._drops = drops
        self._templates: dict[str, str] = {}

    @property
    def log(self) -> Path:
        """The file that the server writes its log to."""
        return self._server.data / "log"

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

    @contextlib.asynccontextmanager
    async def fresh(self, peer: Peer | None = None) -> AsyncIterator[str]:
        name = await self._create("template1" if peer is None else await self._template(peer))
        try:
            yield self._server.url(name)
        finally:
            if self._drops:
                await self._command(f"DROP DATABASE {name} WITH (FORCE)")

    async def _template(self, peer: Peer) -> str:
        """A database with the peer's schema, made once: some peers take seconds to make theirs."""
        if peer.name not in self._templates:
            name = await self._create("template1")
            await peer.install(self._server.url(name))
            await self._check_durable(name)
            self._templates[peer.name] = name
        return self._templates[peer.name]

    async def _check_durable(self, name: str) -> None:
        connection = await asyncpg.connect(self._server.url(name))
        try:
            lost = await connection.fetchval(
                "SELECT string_agg(relname, ', ') FROM pg_class WHERE relpersistence = 'u'"
            )
        finally:
            await connection.close()
        if lost:
            raise Wrong(f"a crash would empty these tables: {lost}")

    async def _create(self, template: str) -> str:
        name = f"bench_{uuid4().hex}"
        await self._command(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    async def _command(self, text: str) -> None:
        admin = await asyncpg.connect(self._server.url())
        try:
            await admin.execute(text)
        finally:
            await admin.close()

    async def settle(self, url: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            tables = await connection.fetchval(
                "SELECT string_agg(relid::regclass::text, ', ') FROM pg_stat_user_tables "
                "WHERE pg_relation_size(relid) > 0"
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
    async def fresh(self, peer: Peer | None = None) -> AsyncIterator[str]:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            url = f"sqlite:///{folder}/bench.db"
            if peer is not None:
                await peer.install(url)
            yield url

    async def settle(self, url: str) -> None:
        """Nothing: it plans without figures, and checkpoints its log by itself."""


@contextlib.contextmanager
def databases(only: str | None, *, drops: bool = True) -> Iterator[list[Kind]]:
    """The databases to measure on, and their end.

    Dropping a database takes a checkpoint, so that none is left for the next measurement to pay for. Where nothing is
    measured, `drops=False` saves that time: what is small may stay until the end.
    """
    with contextlib.ExitStack() as stack:
        kinds: list[Kind] = []
        if only in (None, "postgres"):
            server = stack.enter_context(server_folder())
            server.start()
            kinds.append(Postgres(server, drops=drops))
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
