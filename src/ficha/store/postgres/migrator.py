"""Brings the schema up or down, each migration in a transaction of its own.

Runs over a connection of its own, so that it works on a store that is not open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from .. import migrations
from ..base import StoreError
from ..migrations import Migration, Recorded, SchemaState
from ..schema_name import in_schema
from ..sql.dialect import sql_file
from .connections import Connect, Connection, commit, speaking, transaction

_STATE: Final = sql_file(__package__, "schema_state")
_IS_THERE: Final = "SELECT to_regclass('ficha.migrations') IS NOT NULL"
_BOOKKEEPING: Final = sql_file(__package__, "bookkeeping").format(
    columns=", ".join(f"ADD COLUMN {name} {kind}" for name, kind in migrations.COLUMNS.items())
)
# Held until the transaction ends: a second process waits, and then finds the work done.
_BEGIN: Final = f"BEGIN; SELECT pg_advisory_xact_lock(hashtext('ficha migrations')); {_BOOKKEEPING}"
_WRITERS: Final = sql_file(__package__, "writers")


class PostgresMigrator:
    """The part of the store that migrates the schema."""

    def __init__(self, connect: Connect, schema: str) -> None:
        self._connect = connect
        self.schema = schema
        self.bookkeeping = in_schema(_BOOKKEEPING, schema)
        self.migrations = migrations.load(__package__, "ficha.migrations", schema)

    async def state(self) -> SchemaState:
        async with self._connection() as connection:
            return await _state_of(connection)

    async def version(self) -> int:
        return (await self.state()).version

    async def check(self, connection: Connection) -> None:
        """Raises SchemaMismatch unless this release works with the schema."""
        migrations.refuse_unfit("the database", await _state_of(connection), self.migrations)

    async def migrate(self, target: int | None = None) -> list[Migration]:
        target = migrations.goal(self.migrations, target)
        done: list[Migration] = []
        async with self._connection() as connection:
            while (migration := await self._step(connection, target)) is not None:
                done.append(migration)
        return done

    async def _step(self, connection: Connection, target: int) -> Migration | None:
        """One migration towards the target. Other processes may migrate too, so each step reads the state again."""
        async with transaction(connection, _BEGIN):
            with speaking(connection):
                state = await _state_of(connection)
                migrations.refuse_newer("the database", state, self.migrations)
                moves = migrations.path(self.migrations, state, target)
                if moves:
                    await connection.execute(moves[0].sql)
            await commit(connection)
            return moves[0].migration if moves else None

    async def writers(self) -> list[str]:
        """Roles, other than the owner and superusers, that have a right to write."""
        async with self._connection() as connection:
            with speaking(connection):
                return [name for (name,) in await connection.fetch(_WRITERS)]

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        with speaking():
            connection = await self._connect()
        try:
            yield connection
        finally:
            connection.terminate()


async def _state_of(connection: Connection) -> SchemaState:
    with speaking(connection):
        if not await connection.fetchval(_IS_THERE):
            return SchemaState()
        [(is_hidden, rows)] = await connection.fetch(_STATE)
    if is_hidden:
        raise StoreError(migrations.HIDDEN)
    return SchemaState(tuple(Recorded(*row) for row in rows or ()))
