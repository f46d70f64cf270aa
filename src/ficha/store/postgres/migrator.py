"""Brings the schema up or down, each migration in a transaction of its own.

Runs over a connection of its own, so that it works on a store that is not open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Final, Literal

from .. import migrations
from ..migrations import Migration
from .connections import Connection, commit, speaking, transaction

MIGRATIONS: Final = migrations.load(__package__)
NEWEST: Final = MIGRATIONS[-1].number

_DATABASE: Final = "the database"
_VERSION: Final = "SELECT coalesce(max(version), 0) FROM schema_migrations"
_IS_THERE: Final = "SELECT to_regclass('schema_migrations') IS NOT NULL"
# Held until the transaction ends: a second process waits, and then finds the work done.
_BEGIN: Final = "BEGIN; SELECT pg_advisory_xact_lock(hashtext('ficha migrations')); " + migrations.BOOKKEEPING


class PostgresMigrator:
    """The part of the store that migrates the schema."""

    migrations = MIGRATIONS

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect

    async def version(self) -> int:
        async with self._connection() as connection:
            with speaking(connection):
                if not await connection.fetchval(_IS_THERE):
                    return 0
                return int(await connection.fetchval(_VERSION))

    async def migrate(self, target: int | None = None) -> list[Migration]:
        target = migrations.goal(MIGRATIONS, target)
        done: list[Migration] = []
        async with self._connection() as connection:
            while (migration := await self._step(connection, target)) is not None:
                done.append(migration)
        return done

    async def _step(self, connection: Connection, target: int) -> Migration | None:
        """One migration towards the target. Other processes may migrate too, so each step reads the version again."""
        async with transaction(connection, _BEGIN):
            with speaking(connection):
                version = int(await connection.fetchval(_VERSION))
                migrations.refuse_newer(_DATABASE, version, NEWEST)
                moves = migrations.path(MIGRATIONS, version, target)
                if moves:
                    await connection.execute(moves[0].sql)
                    await connection.execute(moves[0].record)
            await commit(connection)
            return moves[0].migration if moves else None

    async def row_level_security(self, enable: bool) -> None:
        """Lets other roles read their own account's rows and no others (see `rls.up.sql`), or takes that back."""
        async with self._connection() as connection, transaction(connection, _BEGIN):
            with speaking(connection):
                await connection.execute(_security("down"))
                if enable:
                    await connection.execute(_security("up"))
            await commit(connection)

    @property
    def row_level_security_sql(self) -> str:
        """The SQL that turns it on, for people who use another migration tool."""
        return _security("up")

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        with speaking():
            connection = await self._connect()
        try:
            yield connection
        finally:
            connection.terminate()


def _security(way: Literal["up", "down"]) -> str:
    return (files(__package__) / "migrations" / f"rls.{way}.sql").read_text("utf-8")


async def check(connection: Connection) -> None:
    """Raises SchemaMismatch unless the schema is this release's."""
    with speaking(connection):
        is_there = await connection.fetchval(_IS_THERE)
        version = int(await connection.fetchval(_VERSION)) if is_there else 0
    migrations.refuse_other(_DATABASE, version, NEWEST)
