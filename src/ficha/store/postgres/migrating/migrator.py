"""Migrates the schema up or down, step by step, while others use the database.

A step that changes tables waits for their locks for a short time only, because later transactions wait behind it; then
it lets them pass, and tries again. Indexes are built concurrently, and many rows are changed in small batches.
Runs over connections of its own, so that it works on a store that is not open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from ... import migrations
from ...base import StoreError, Transient
from ...migrations import DEFAULT_WAIT, DueStep, LockWait, Migration, Move, Recorded, SchemaState, Tell, quiet
from ...schema_name import in_schema
from ...sql.dialect import sql_file
from ..connections import Connect, Connection, commit, speaking, transaction
from .index_builds import LONG_S, build_index

_STATE: Final = sql_file(__package__, "schema_state")
_IS_THERE: Final = "SELECT to_regclass('ficha.migrations') IS NOT NULL"
_BOOKKEEPING: Final = sql_file(__package__, "bookkeeping").format(
    columns=", ".join(f"ADD COLUMN {name} {kind}" for name, kind in migrations.COLUMNS.items())
)
_WRITERS: Final = sql_file(__package__, "writers")
_LOCK_HOLDERS: Final = sql_file(__package__, "lock_holders")
_BROKEN_INDEXES: Final = sql_file(__package__, "broken_indexes")
_PACKAGE: Final = "ficha.store.postgres"
_TRY_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtext('ficha migrations'))"
_LOOK_S: Final = 0.2


class PostgresMigrator:
    """The part of the store that migrates the schema."""

    def __init__(self, connect: Connect, schema: str) -> None:
        self._connect = connect
        self.schema = schema
        self.bookkeeping = in_schema(_BOOKKEEPING, schema)
        self.migrations = migrations.load(_PACKAGE, "ficha.migrations", schema)

    async def state(self) -> SchemaState:
        async with self._connection() as connection:
            return await _state_of(connection)

    async def version(self) -> int:
        return (await self.state()).version

    async def check(self, connection: Connection) -> None:
        """Raises SchemaMismatch unless this release works with the schema."""
        migrations.refuse_unfit("the database", await _state_of(connection), self.migrations)

    async def migrate(
        self, target: int | None = None, tell: Tell = quiet, lock_wait: LockWait = DEFAULT_WAIT
    ) -> list[Migration]:
        target = migrations.goal(self.migrations, target)
        done: list[Migration] = []
        async with self._alone(tell), self._connection() as connection:
            steps = _Steps(connection, tell, lock_wait)
            await steps.in_transaction("the table of migrations", self.bookkeeping)
            while True:
                state = await _state_of(connection)
                migrations.refuse_newer("the database", state, self.migrations)
                moves = migrations.path(self.migrations, state, target)
                if not moves:
                    return done
                await steps.run(moves[0], state)
                done.append(moves[0].migration)

    async def writers(self) -> list[str]:
        """Roles, other than the owner and superusers, that have a right to write."""
        async with self._connection() as connection:
            with speaking(connection):
                return [name for (name,) in await connection.fetch(_WRITERS)]

    async def broken_indexes(self) -> list[str]:
        """Indexes that an interrupted migration left incomplete."""
        async with self._connection() as connection:
            with speaking(connection):
                return [name for (name,) in await connection.fetch(_BROKEN_INDEXES)]

    @asynccontextmanager
    async def _alone(self, tell: Tell) -> AsyncIterator[None]:
        """Lets one process migrate at a time. A transaction on a connection of its own holds the lock, so it works
        behind a pooler in transaction mode too; that transaction has no snapshot, so no index build waits for it."""
        is_told = False
        async with self._connection() as connection:
            while True:
                async with transaction(connection, "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0"):
                    with speaking(connection):
                        is_mine = await connection.fetchval(_TRY_LOCK)
                        # Replaces that query, whose snapshot would last as long as the transaction.
                        await connection.execute("SELECT 1")
                    if is_mine:
                        yield
                        return
                if not is_told:
                    tell("another process is migrating this database: waiting for it")
                is_told = True
                await asyncio.sleep(_LOOK_S)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        with speaking():
            connection = await self._connect()
        try:
            yield connection
        finally:
            connection.terminate()


class _Steps:
    """Runs the steps of migrations over one connection."""

    def __init__(self, connection: Connection, tell: Tell, lock_wait: LockWait) -> None:
        self._connection = connection
        self._tell = tell
        self._wait = lock_wait

    async def run(self, move: Move, state: SchemaState) -> None:
        for due in migrations.due_steps(move, state):
            match due.step.way:
                case "transaction":
                    await self.in_transaction(due.label, f"{due.step.text}\n{due.done}")
                case "concurrently":
                    await self.in_transaction(due.label, due.begun)
                    with speaking(self._connection):
                        await build_index(self._connection, due.step.text, self._tell)
                    await self.in_transaction(due.label, due.done)
                case "batches":
                    await self._in_batches(due)

    async def in_transaction(self, label: str, text: str) -> None:
        async def execute() -> None:
            await self._connection.execute(text, timeout=LONG_S)

        await self._patiently(label, execute)

    async def _in_batches(self, due: DueStep) -> None:
        reached = due.reached
        while True:
            end: str | None = None

            async def batch(after: str | None = reached) -> None:
                nonlocal end
                end = await self._connection.fetchval(due.batch_end(after))
                text = due.done if end is None else due.batch(after, end)
                await self._connection.execute(text, timeout=LONG_S)

            began = time.monotonic()
            await self._patiently(due.label, batch)
            if end is None:
                return
            reached = end
            # Half of the time is left to others.
            await asyncio.sleep(time.monotonic() - began)

    async def _patiently(self, label: str, work: Callable[[], Awaitable[None]]) -> None:
        """Runs the work in a transaction, and tries again while others hold the locks that it needs."""
        timeout_ms = round(self._wait.timeout_s * 1000)
        begin = f"BEGIN; SET LOCAL lock_timeout = {timeout_ms}; SET LOCAL statement_timeout = 0"
        for attempt in range(1, self._wait.tries + 1):
            try:
                async with transaction(self._connection, begin):
                    with speaking(self._connection):
                        await work()
                    await commit(self._connection)
                return
            except Transient as error:
                with speaking(self._connection):
                    holders = await self._connection.fetch(_LOCK_HOLDERS)
                names = ", ".join(f"process {pid} ({state}, for {seconds} s)" for pid, state, seconds in holders)
                words = f"waits for a lock, held by {names}" if names else f"cannot go on yet ({error})"
                if attempt == self._wait.tries:
                    raise StoreError(
                        f"migration {label} {words}; tried {attempt} times, {self._wait.timeout_s:g} s each. Nothing "
                        "of this step was kept: end that transaction, or run it again when it has ended"
                    ) from error
                self._tell(f"migration {label} {words}; tries again")
                await asyncio.sleep(self._wait.pause_s)


async def _state_of(connection: Connection) -> SchemaState:
    with speaking(connection):
        if not await connection.fetchval(_IS_THERE):
            return SchemaState()
        rows = await connection.fetch(_STATE)
    if rows[0][0]:
        raise StoreError(migrations.HIDDEN)
    return SchemaState(tuple(Recorded(*row) for _, *row in rows if row[0] is not None))
