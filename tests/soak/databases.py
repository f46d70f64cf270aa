"""The two databases of a soak: how each is struck, upgraded and measured."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import apsw
import asyncpg

from tests.chaos.servers import FragileServer, crash

TABLES: Final = ("accounts", "ready", "parked", "leases", "jobs", "checkpoints", "steps", "events")
"""Those whose rows leave again. The ledger and the idempotency keys stay longer than any soak."""
UPGRADE: Final = (
    "ALTER TABLE {schema}jobs ADD COLUMN soak text",
    "ALTER TABLE {schema}accounts ADD COLUMN soak text",
    "INSERT INTO {schema}{migrations} (version, name, works_from) VALUES (9001, 'soak', 1)",
)
"""What an additive migration of a later release does."""


SETTINGS: Final = {"autovacuum_naptime": "5s"}
"""A crash makes PostgreSQL forget which tables need a vacuum, and here crashes come more often than it looks."""


class Killed(Protocol):
    def send(self, sign: signal.Signals) -> None: ...


class SoakedDatabase(Protocol):
    name: str
    blow: str
    """What `strike` does, for the report."""
    url: str

    async def strike(self, others: Sequence[Killed], choice: random.Random) -> None:
        """The worst that can happen to this kind of database; `others` are the processes that may be killed."""

    async def upgrade(self) -> None:
        """A later release's additive migration, under load."""

    async def measured(self, pids: Sequence[int]) -> tuple[float, int, float]:
        """The size of the working tables in MB, how many connections the processes have, and the -wal file in MB."""


class SoakedPostgres:
    name = "PostgreSQL"
    blow = "crashes of PostgreSQL"

    def __init__(self, server: FragileServer) -> None:
        self._server = server
        self.url = server.url()

    async def strike(self, others: Sequence[Killed], choice: random.Random) -> None:
        await crash(self._server, choice.uniform(0.0, 2.0))

    async def upgrade(self) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            for statement in UPGRADE:
                await connection.execute(statement.format(schema="ficha.", migrations="migrations"))
        finally:
            await connection.close()

    async def measured(self, pids: Sequence[int]) -> tuple[float, int, float]:
        query = """
            SELECT (SELECT sum(pg_total_relation_size(format('ficha.%I', name)::regclass))
                FROM unnest($1::text[]) AS t (name))::bigint,
                (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database())
        """
        connection = await asyncpg.connect(self.url, timeout=5)
        try:
            size, connections = await connection.fetchrow(query, list(TABLES))
        finally:
            await connection.close()
        return size / 2**20, connections, 0.0


class SoakedSqlite:
    name = "SQLite"
    blow = "kills of all processes but three at once"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ficha.db"
        self.url = f"sqlite:///{self._path}"

    async def strike(self, others: Sequence[Killed], choice: random.Random) -> None:
        for process in others:
            process.send(signal.SIGKILL)

    async def upgrade(self) -> None:
        await asyncio.to_thread(self._upgrade)

    def _upgrade(self) -> None:
        db = self._opened()
        try:
            with db:
                for statement in UPGRADE:
                    db.execute(statement.format(schema="", migrations="schema_migrations"))
        finally:
            db.close()

    async def measured(self, pids: Sequence[int]) -> tuple[float, int, float]:
        return await asyncio.to_thread(self._tables_mb), sum(map(self._handles, pids)), self._wal_mb()

    def _wal_mb(self) -> float:
        wal = Path(f"{self._path}-wal")
        return wal.stat().st_size / 2**20 if wal.exists() else 0.0

    def _tables_mb(self) -> float:
        names = ", ".join(f"'{name}'" for name in TABLES)
        query = f"""
            SELECT sum(pgsize) FROM dbstat WHERE aggregate = TRUE AND name IN
            (SELECT name FROM sqlite_master WHERE tbl_name IN ({names}))
        """
        db = self._opened()
        try:
            [(size,)] = db.execute(query)
        finally:
            db.close()
        return float(size) / 2**20

    def _handles(self, pid: int) -> int:
        """How often a process has the file open; a process that is gone has not."""
        found = 0
        try:
            for handle in os.scandir(f"/proc/{pid}/fd"):
                found += os.readlink(handle.path) == str(self._path)
        except OSError:
            return 0
        return found

    def _opened(self) -> apsw.Connection:
        db = apsw.Connection(str(self._path))
        db.set_busy_timeout(10_000)
        return db
