"""The PostgreSQL store: transactions, their markers, and hints between processes.

A transaction begins, locks and loads what its group needs (`load.py`), decides, writes in one statement (`write.py`)
and commits. The optimistic layer is tried first and spares some groups the locks (`optimistic/`).
All tables are in a schema of their own, which every statement names: no `search_path` matters. PostgreSQL 15 or newer.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Set
from typing import Any, Final, TypeVar

from ...core.needs import Needs
from ...core.policy import MILLISECOND
from ...core.snapshot import Snapshot
from .. import base
from ..base import Clock, Committed, CommitUnknown, Decide, Decision, Hints, Query, SchemaChanged, Transient, no_hints
from ..callers import savepoint
from ..hint_check import HintCheck
from ..schema_name import DEFAULT_SCHEMA, in_schema
from ..sql.dialect import sql_file
from . import reads
from .connections import TIMEOUT_S, Connection, Connections, SettledConnector, commit, connector, speaking, transaction
from .dialect import Layout
from .errors import translated
from .layer import Group, Layer
from .listener import CHANNEL, Listener
from .load import load
from .migrating import PostgresMigrator
from .optimistic import optimistic_layer
from .write import PARTS, write

T = TypeVar("T")

_MARKER: Final = sql_file(__package__, "marker")
_MARKER_WAIT_S: Final = 90.0
_CONFIRM: Final = "SELECT FROM ficha.commits WHERE committer = $1::text::uuid AND sequence = $2 FOR UPDATE"
_PRUNE: Final = sql_file(__package__, "prune")
_FOLD_COUNTS: Final = sql_file(__package__, "fold_counts")
_NOTIFY: Final = sql_file(__package__, "notify").format(channel=CHANNEL)


class PostgresStore(PostgresMigrator):
    """A store in PostgreSQL.

    url: where the database is, as libpq takes it.
    schema: the schema that the tables are in. Defaults to `ficha`.
    clock: microseconds since 1970, in place of the database's clock. For tests.
    committers: how many transactions may run side by side, each on a connection of its own. Defaults to 3.
    pool_size: connections for reading and for hints. Defaults to 4.
    listen_url: where to listen for hints, if `url` leads to a pooler in transaction mode. Defaults to `url`.
    prepared: whether statements stay prepared between transactions. Turn it off behind a pooler in transaction mode
        that does not track them. Defaults to True.
    optimistic: whether a group may be decided on cached rows, and written only if they are unchanged. Defaults to
        True; behind a pooler in transaction mode it has no effect.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        clock: Clock | None = None,
        committers: int = 3,
        pool_size: int = 4,
        listen_url: str | None = None,
        prepared: bool = True,
        optimistic: bool = True,
    ) -> None:
        super().__init__(connector(url, schema=schema, prepared=prepared), schema)
        self.committers = committers
        self._clock = clock
        self._pool_size = pool_size
        self._optimistic = optimistic
        self._connect_listener = connector(listen_url or url, schema=schema, prepared=prepared)
        self._connect_writer = SettledConnector(url, schema=schema, prepared=prepared, writes=True)
        self._connect_reader = SettledConnector(url, schema=schema, prepared=prepared, writes=False)
        self._layout = Layout(part.table for part in PARTS)
        self._listeners: list[Listener | HintCheck] = []
        self._begun: dict[str, int] = {}
        """When each committer's last transaction began, by the database's clock."""
        self._pruned = 0
        """The last commit that was deleted: the next scan starts after it."""
        self._signature = uuid.uuid4().hex[:16]
        self._start()

    def _start(self) -> None:
        """Makes new connections and an empty cache."""
        self._writers = Connections(self._new_writer, self.committers, patience_s=TIMEOUT_S)
        self._readers = Connections(self._connect_reader, self._pool_size)
        self._layer = Layer()
        self._layer = optimistic_layer(self._layout, self._signed, self._clock)

    async def _new_writer(self) -> Connection:
        connection = await self._connect_writer()
        try:
            await self._layout.read(connection)
        except BaseException:
            connection.terminate()
            raise
        self._layer.connected()
        return connection

    async def open(self) -> None:
        await self.close()
        self._start()
        try:
            async with self._readers.take() as connection:
                await self.check(connection)
                with speaking(connection):
                    await self._layout.read(connection)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        while self._listeners:
            await self._listeners.pop().close()
        await self._writers.close()
        await self._readers.close()

    async def transact(
        self, committer: str, number: int, needs: Needs, decide: Decide, hints: Hints = no_hints
    ) -> Committed:
        """A group that changes nothing is rolled back and needs no marker."""

        def noting(snapshot: Snapshot) -> Decision:
            self._begun[committer] = snapshot.now
            return decide(snapshot)

        group = Group((committer, number), needs, noting, hints)
        async with self._writers.take() as connection:
            if self._is_optimistic and (done := await self._layer.try_transact(connection, group)) is not None:
                return done
            async with transaction(connection, self._connect_writer.begin):
                with speaking(connection):
                    snapshot = await load(connection, needs, self._clock, self._layer)
                changes, outcomes = noting(snapshot)
                if not changes:
                    return Committed(changes, outcomes)
                committed = Committed(changes, outcomes, hints(changes))
                with speaking(connection):
                    signed = self._signed(committed.hints)
                    version = await write(connection, self._layout, snapshot, changes, group.marker, signed)
                await commit(connection, committed)
        self._layer.committed(changes, version)
        return committed

    def may_claim_with_submit(self, pools: Set[str]) -> bool:
        return self._is_optimistic and self._layer.may_claim_with_submit(pools)

    @property
    def _is_optimistic(self) -> bool:
        """Only where the connection has the settings: the layer's single statements need their plans pinned."""
        return self._optimistic and self._connect_writer.is_settled

    async def committed(self, committer: str, number: int) -> bool:
        """Waits for an old connection's transaction by trying to write a row with the same marker.

        It uses a new connection, because an old one may lead to a server that is no longer the primary. The database
        ends a transaction whose client is gone after 30 seconds, so the wait is bounded.
        """
        give_up_at = time.monotonic() + _MARKER_WAIT_S
        while True:
            try:
                async with self._connection() as connection, transaction(connection):
                    with speaking(connection):
                        is_marked = await connection.fetchval(_MARKER, committer, number) is None
                        now = await reads.database_now(connection, self._clock)
                    if is_marked:
                        # It may have been committed here alone, where a synchronous standby is awaited and the wait was
                        # broken off. A later commit is answered only once the standby has both.
                        with speaking(connection):
                            await connection.execute(_CONFIRM, committer, number)
                        await commit(connection)
                    elif now - self._begun.get(committer, now) > base.ASKED_MS * MILLISECOND:
                        raise CommitUnknown(f"transaction {number} of {committer} began too long ago: outcome unknown")
                    return is_marked
            except Transient as error:
                if time.monotonic() > give_up_at:
                    raise CommitUnknown(
                        f"transaction {number} of committer {committer} has been committing for "
                        f"{_MARKER_WAIT_S:.0f} s; ask again"
                    ) from error
                await asyncio.sleep(0.1)

    async def transact_within(self, connection: Any, needs: Needs, decide: Decide, hints: Hints) -> Committed:
        """Runs inside the caller's transaction, without a marker; no layer caches its rows, since they may be undone.

        Rows stay locked until the caller's transaction ends, so it should end soon, and should not have locked any of
        Ficha's rows itself.
        """
        try:
            return await self._transact_within(connection, needs, decide, hints)
        except SchemaChanged:
            async with savepoint(connection, self.schema, translated) as callers:
                await self._layout.read(callers)
            return await self._transact_within(connection, needs, decide, hints)

    async def _transact_within(self, connection: Any, needs: Needs, decide: Decide, hints: Hints) -> Committed:
        async with savepoint(connection, self.schema, translated) as callers:
            changes, outcomes = decide(snapshot := await load(callers, needs, self._clock, Layer()))
            # Not signed: this process learns of the caller's commit by the same hint as all others.
            told = sorted(hints(changes))
            await write(callers, self._layout, snapshot, changes, None, told)
        return Committed(changes, outcomes, told)

    async def read(self, query: Query[T]) -> T:
        try:
            return await self._read(query)
        except Transient:
            # A deadlock with a migration, say, was broken at its cost. It has changed nothing, so it is run again.
            return await self._read(query)

    async def _read(self, query: Query[T]) -> T:
        async with self._readers.take() as connection:
            with speaking(connection):
                return await reads.answer(connection, query, self._clock)

    async def check_schema(self) -> None:
        async with self._readers.take() as connection:
            await self.check(connection)

    async def tidy(self, commits_kept_ms: int) -> bool:
        now = None if self._clock is None else self._clock()
        async with self._readers.take() as connection:
            with speaking(connection):
                await connection.execute(_FOLD_COUNTS)
                gone = await connection.fetch(_PRUNE, self._pruned, now, commits_kept_ms, base.COMMITS_PRUNED)
        self._pruned = max((number for (number,) in gone), default=self._pruned)
        return len(gone) == base.COMMITS_PRUNED

    async def scrub(self) -> bool:
        return True

    async def notify(self, names: Iterable[str]) -> None:
        async with self._readers.take() as connection:
            with speaking(connection):
                await connection.execute(_NOTIFY, self._signed(names))

    def _signed(self, names: Iterable[str]) -> list[str]:
        """Hints with this store's signature, so that it can ignore its own."""
        return [f"{name}\n{self._signature}" for name in sorted(set(names))]

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Returns after the first attempt to listen; `heard` is called until the store is closed."""

        check: HintCheck | None = None

        def stirred(hint: str) -> None:
            if check is not None:
                check.heard()
            name, _, signature = hint.partition("\n")
            if signature == self._signature:
                return
            if not name or name[0] >= " ":
                self._layer.hinted()
            heard(name)

        listener = Listener(self._connect_listener, in_schema(CHANNEL, self.schema), stirred)
        self._listeners.append(listener)
        await listener.ready()
        if not self._connect_reader.is_settled:
            # There is a pooler.
            check = HintCheck(self.notify)
            self._listeners.append(check)
