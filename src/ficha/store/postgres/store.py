"""The PostgreSQL store: transactions, their markers, and hints between processes.

Table names resolve through the connection's `search_path`: to keep Ficha's tables in a schema of their own, give the
role or the database that path (`ALTER ROLE … SET search_path`), or put `?options=-csearch_path%3Dficha` into the URL.
PostgreSQL 15 or newer.
"""

# ruff: noqa: S608 (texts are put together from the names in columns.py; values are always parameters)
from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Set
from typing import Any, Final, TypeVar

from ...core.needs import Needs
from ...core.outcomes import Outcome
from ...core.policy import MILLISECOND
from ...core.snapshot import Changes, Snapshot
from .. import base
from ..base import (
    ASKED_MS,
    Clock,
    Committed,
    CommitUnknown,
    Decide,
    Hints,
    Query,
    StoreError,
    Transient,
    Unavailable,
    no_hints,
)
from . import migrator, reads
from .apply import apply
from .connections import (
    BEGIN,
    BEGIN_SET_UP,
    PLANS,
    SETTINGS,
    TIMEOUT_S,
    Connection,
    Connections,
    SettledConnector,
    commit,
    committing,
    connector,
    speaking,
    transaction,
)
from .listener import CHANNEL, Listener
from .load import load, unlocked
from .row_cache import PostgresRowCache
from .scan_start import ScanStarts
from .sql_types import at

T = TypeVar("T")

# Writing the marker oneself waits for whoever is still writing it, and works only if they did not. It is not kept.
_MARKER: Final = """
INSERT INTO commits (committer, sequence, at, size, events) VALUES ($1, $2, now(), 0, '[]')
ON CONFLICT DO NOTHING RETURNING true
"""
_MARKER_WAIT_S: Final = 90.0
# By the database's clock. The newest stays, so that the numbers are seen to go on.
_PRUNE: Final = f"""
WITH oldest AS MATERIALIZED (SELECT number, at FROM commits WHERE number > $1 ORDER BY number LIMIT $4)
DELETE FROM commits USING oldest
WHERE commits.number = oldest.number AND commits.number < (SELECT max(number) FROM commits)
    AND oldest.at < coalesce({at("$2::bigint")}, now()) - $3::bigint * interval '1 millisecond'
RETURNING commits.number
"""
# One statement, so that a count is never lost or seen twice. Rows that another process is folding are left to it.
_FOLD_COUNTS: Final = """
WITH many AS (SELECT worker, kind FROM worker_counts GROUP BY worker, kind HAVING count(*) > 1),
gone AS (
    DELETE FROM worker_counts WHERE ctid = ANY (ARRAY(
        SELECT c.ctid FROM worker_counts c JOIN many USING (worker, kind) FOR UPDATE OF c SKIP LOCKED
    )) RETURNING worker, kind, runs, busy_us
)
INSERT INTO worker_counts (worker, kind, runs, busy_us)
SELECT worker, kind, sum(runs), sum(busy_us) FROM gone GROUP BY worker, kind
"""
_NOTIFY: Final = f"""
SELECT set_config('synchronous_commit', 'off', true), pg_notify('{CHANNEL}', pool) FROM unnest($1::text[]) AS w (pool)
"""
"""A hint may be lost, so nobody waits for the disk: the setting holds for this one statement's transaction."""


class PostgresStore(migrator.PostgresMigrator):
    """A store in PostgreSQL.

    url: where the database is, as libpq writes it.
    clock: microseconds since 1970, in place of the database's clock. For tests.
    committers: how many transactions may run side by side, each on a connection of its own. Defaults to 3.
    pool_size: connections for reading and for hints. Defaults to 4.
    listen_url: where to listen for hints, if `url` leads to a pooler in transaction mode. Defaults to `url`.
    prepared: whether statements stay prepared between transactions. Turn it off behind a pooler in transaction mode
        that does not keep track of them. Defaults to True.
    remember: whether a group may be decided on rows that this process has cached, and written only if they still stand
        (`row_cache.py`). Defaults to True; behind a pooler in transaction mode it is not done.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        committers: int = 3,
        pool_size: int = 4,
        listen_url: str | None = None,
        prepared: bool = True,
        remember: bool = True,
    ) -> None:
        connect = connector(url, prepared=prepared)
        super().__init__(connect)
        self.committers = committers
        self._clock = clock
        self._pool_size = pool_size
        self._connect_listener = connector(listen_url or url, prepared=prepared)
        self._connect_writer = SettledConnector(url, SETTINGS, prepared=prepared, timeout_s=None)
        self._connect_reader = SettledConnector(url, PLANS, prepared=prepared)
        self._remember = remember
        self._heads = ScanStarts()
        self._remembered = PostgresRowCache(clock)
        self._writers = Connections(self._connect_writer, committers, patience_s=TIMEOUT_S)
        self._readers = Connections(self._connect_reader, pool_size)
        self._listeners: list[Listener] = []
        self._begun: dict[str, int] = {}
        """When each committer's last transaction was begun, by the database's clock."""
        self._pruned = 0
        """The last commit that was cleared away: what lies below need not be walked over again."""
        self._signature = uuid.uuid4().hex[:16]

    async def open(self) -> None:
        await self.close()
        self._writers = Connections(self._connect_writer, self.committers, patience_s=TIMEOUT_S)
        self._remembered = PostgresRowCache(self._clock)
        self._readers = Connections(self._connect_reader, self._pool_size)
        async with self._readers.take() as connection:
            await migrator.check(connection)

    async def close(self) -> None:
        while self._listeners:
            await self._listeners.pop().close()
        await self._writers.close()
        await self._readers.close()

    async def transact(
        self, committer: str, number: int, needs: Needs, decide: Decide, hints: Hints = no_hints
    ) -> Committed:
        """What changes nothing is rolled back and leaves no marker: there is nothing to be in doubt about."""
        marker = committer, number
        async with self._writers.take() as connection:
            is_settled = self._connect_writer.is_settled
            if is_settled and self._remember:
                committed = await self._guessed(connection, marker, needs, decide, hints)
                if committed is not None:
                    return committed
            async with transaction(connection, BEGIN_SET_UP if is_settled else BEGIN):
                snapshot, changes, outcomes = await self._decided(connection, needs, decide, ours=connection)
                if not changes:
                    return Committed(changes, outcomes)
                self._begun[committer] = snapshot.now
                committed = Committed(changes, outcomes, hints(changes))
                with speaking(connection):
                    signed = self._signed(committed.hints)
                    written = await apply(connection, snapshot, changes, marker, hints=signed)
                await commit(connection, committed)
        if written is not None:
            self._remembered.learn(changes, written)
        return committed

    async def _guessed(
        self, connection: Connection, marker: tuple[str, int], needs: Needs, decide: Decide, hints: Hints
    ) -> Committed | None:
        """Decides on cached rows and writes it in one statement; None if they proved to be old.

        A refusal is never based on cached rows alone: a group that would change nothing is decided again under locks,
        unless it only claims, for which all was read just now. One that changes a pool needs its lock.
        """
        with speaking(connection):
            guess = await self._remembered.guess(connection, needs, self._heads)
        if guess is None:
            return None
        changes, outcomes = decide(guess.snapshot)
        if not changes or changes.pools:
            return Committed(changes, outcomes) if guess.tells_all and not changes else None
        if connection.is_closed():
            raise Unavailable("the connection was lost before anything was written")
        self._begun[marker[0]] = guess.snapshot.now
        committed = Committed(changes, outcomes, hints(changes))
        try:
            with committing(connection, committed):
                signed = self._signed(committed.hints)
                written = await apply(connection, guess.snapshot, changes, marker, guess.guarded(changes), signed)
        except Transient:
            written = None
        if written is None:
            self._remembered.was_wrong(guess)
            return None
        self._remembered.was_right()
        self._remembered.learn(changes, written)
        return committed

    def may_claim_with_submit(self, pools: Set[str]) -> bool:
        return self._remember and self._connect_writer.is_settled and self._remembered.may_claim_with_submit(pools)

    async def committed(self, committer: str, number: int) -> bool:
        """Waits for an old connection's transaction by trying to write a row with the same marker.

        Asks over a new connection, because an old one may lead to a server that is no longer the one. The database
        ends a transaction whose client is gone after 30 seconds, so this does not wait for ever.
        """
        give_up_at = time.monotonic() + _MARKER_WAIT_S
        while True:
            try:
                async with self._connection() as connection, transaction(connection):
                    with speaking(connection):
                        is_marked = await connection.fetchval(_MARKER, committer, number) is None
                        now = await reads.database_now(connection, self._clock)
                    if not is_marked and now - self._begun.get(committer, now) > ASKED_MS * MILLISECOND:
                        raise CommitUnknown(f"transaction {number} of {committer} began too long ago to tell its fate")
                    return is_marked
            except Transient as error:
                if time.monotonic() > give_up_at:
                    raise CommitUnknown(
                        f"transaction {number} of committer {committer} has been committing for "
                        f"{_MARKER_WAIT_S:.0f} s; ask again"
                    ) from error
                await asyncio.sleep(0.1)

    async def transact_within(self, connection: Any, needs: Needs, decide: Decide) -> Committed:
        """The same on a caller's asyncpg connection, inside the caller's transaction; there is no marker.

        After any error the caller has to roll back. Rows stay locked until the caller's transaction ends, so it
        should end soon, and should not have locked any of Ficha's rows itself.
        """
        if not connection.is_in_transaction():
            raise StoreError("this connection is not in a transaction; begin one, and commit it afterwards")
        snapshot, changes, outcomes = await self._decided(connection, needs, decide, ours=None)
        with speaking():
            await apply(connection, snapshot, changes)
        return Committed(changes, outcomes)

    async def _decided(
        self, connection: Any, needs: Needs, decide: Decide, *, ours: Connection | None
    ) -> tuple[Snapshot, Changes, list[Outcome]]:
        """Loads and decides, once more where only the decision told what else had to be locked."""
        with speaking(ours):
            snapshot = await load(connection, needs, self._clock, self._heads)
        self._remembered.heard(snapshot.now)
        self._remembered.looked(snapshot)
        changes, outcomes = decide(snapshot)
        if pools := unlocked(needs, snapshot, changes):
            with speaking(ours):
                snapshot = await load(connection, needs, self._clock, self._heads, pools)
            changes, outcomes = decide(snapshot)
        return snapshot, changes, outcomes

    async def read(self, query: Query[T]) -> T:
        async with self._readers.take() as connection:
            with speaking(connection):
                return await reads.answer(connection, query, self._clock)

    async def tidy(self, commits_kept_ms: int) -> None:
        now = None if self._clock is None else self._clock()
        async with self._readers.take() as connection:
            with speaking(connection):
                await connection.execute(_FOLD_COUNTS)
                gone = await connection.fetch(_PRUNE, self._pruned, now, commits_kept_ms, base.COMMITS_PRUNED)
        self._pruned = max((number for (number,) in gone), default=self._pruned)

    async def notify(self, names: Iterable[str]) -> None:
        async with self._readers.take() as connection:
            with speaking(connection):
                await connection.execute(_NOTIFY, self._signed(names))

    def _signed(self, names: Iterable[str]) -> list[str]:
        """Hints as they travel: signed, so that nobody is woken by a hint of its own."""
        return [f"{name}\n{self._signature}" for name in sorted(set(names))]

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Returns once it listens, or has first tried to; hints are heard until the store is closed."""

        def stirred(hint: str) -> None:
            name, _, signature = hint.partition("\n")
            if signature == self._signature:
                return
            if not name or name[0] >= " ":
                self._remembered.stirred()
            heard(name)

        listener = Listener(self._connect_listener, stirred)
        self._listeners.append(listener)
        await listener.ready()
