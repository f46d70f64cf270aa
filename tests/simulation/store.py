"""One process's connection to the simulated database: every message takes time, and may not arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Set
from typing import Any, Final, TypeVar

from ficha.core.needs import Needs
from ficha.core.snapshot import Snapshot
from ficha.store.base import (
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
from ficha.store.memory import reads
from ficha.store.postgres.layer import Group, Layer

from .database import Database, Transaction
from .decisions import Decisions
from .loop import Process

T = TypeVar("T")

TRIES: Final = 3


class SimulatedStore:
    """A store as an engine sees it, with PostgreSQL's own optimistic layer before it, where the database says so."""

    def __init__(self, database: Database, process: Process, decisions: Decisions) -> None:
        self.committers = 3 if database.kind == "postgres" else 1
        self.database = database
        self.process = process
        self.decisions = decisions
        self._layer = Layer()
        if database.is_optimistic:
            # Only then is it there for certain.
            from .optimistic import simulated_layer

            self._layer = simulated_layer(self)

    async def open(self) -> None:
        await self.travel(None)

    async def close(self) -> None:
        self.database.listeners.pop(self.process, None)

    async def transact(
        self, committer: str, number: int, needs: Needs, decide: Decide, hints: Hints = no_hints
    ) -> Committed:
        group = Group((committer, number), needs, decide, hints)
        if (done := await self._layer.try_transact(None, group)) is not None:
            return done
        await self.travel(None)
        transaction = self.database.begin(self.process)
        try:
            transaction.changes, transaction.outcomes = decide(await self._loaded(transaction, needs))
            if not transaction.changes:
                return Committed(transaction.changes, transaction.outcomes)
            transaction.commands = self.decisions.commands(transaction.changes)
            transaction.marker = committer, number
            if self.database.kind == "postgres":
                transaction.hints = tuple(hints(transaction.changes))
            await self.database.locks.wait(transaction, ("committer", committer))
            await self.travel(transaction)
            committed = await self.commit(transaction)
            self._layer.committed(transaction.changes, transaction.version)
            return committed
        finally:
            # After a cut, or once COMMIT is on its way, the database goes by what it has heard and ends it itself.
            if not transaction.is_cut and not transaction.is_committing:
                self.database.end(transaction)

    async def _loaded(self, transaction: Transaction, needs: Needs) -> Snapshot:
        database = self.database
        for _ in range(TRIES):
            for key in database.lock_order(needs):
                await database.locks.wait(transaction, key)
            await self.travel(transaction)
            if not database.is_torn(transaction, needs):
                snapshot = database.load(transaction, needs)
                self._layer.loaded(snapshot, self._layer.stretches(needs.ready), 0.0)
                return snapshot
            transaction.is_repeating = True
        raise Transient(f"rows changed while they were being locked, {TRIES} times")

    async def commit(self, transaction: Transaction) -> Committed:
        attempt = Committed(transaction.changes, transaction.outcomes, transaction.hints)
        unknown = CommitUnknown("the connection was lost while committing", attempt)
        database = self.database
        random = database.random
        fate = database.faults.commit_fate(random) if database.kind == "postgres" else "answered"
        if fate == "never sent":
            self._cut(transaction)
            raise unknown
        transaction.is_committing = True
        flushed_s = database.latency_s() * 2
        if fate == "late":
            transaction.is_cut = True
            database.later(flushed_s + random.uniform(0, 3), database.commit, transaction)
            raise unknown
        transaction.reply = asyncio.get_running_loop().create_future()
        database.later(flushed_s, database.commit, transaction)
        if database.falls_for_s is not None:
            database.later(flushed_s / 2, database.go_away, database.falls_for_s)
            database.falls_for_s = None
        try:
            await transaction.reply
        except CommitUnknown:
            raise unknown from None
        await asyncio.sleep(database.latency_s())
        if fate == "reply lost":
            raise unknown
        return attempt

    async def committed(self, committer: str, number: int) -> bool:
        await self.travel(None)
        asking = self.database.begin(self.process)
        try:
            await self.database.locks.wait(asking, ("committer", committer))
            await self.travel(asking)
            return await self.database.committed(committer, number)
        finally:
            if not asking.is_cut:
                self.database.end(asking)

    async def transact_within(self, connection: Any, needs: Needs, decide: Decide, hints: Hints) -> Committed:
        raise StoreError("there is no caller's transaction in a simulation")

    async def read(self, query: Query[T]) -> T:
        await self.travel(None)
        answer = reads.answer(self.database, query)
        await self.travel(None)
        return answer

    async def tidy(self, commits_kept_ms: int) -> bool:
        await self.travel(None)
        return await self.database.tidy(commits_kept_ms)

    async def scrub(self) -> bool:
        return True

    async def notify(self, names: Iterable[str]) -> None:
        await self.travel(None)
        self.database.tell(names, self.process)

    async def listen(self, heard: Callable[[str], None]) -> None:
        def stirred(name: str) -> None:
            if not name or name[0] >= " ":
                self._layer.hinted()
            heard(name)

        self.database.listeners[self.process] = stirred

    def may_claim_with_submit(self, pools: Set[str]) -> bool:
        return self._layer.may_claim_with_submit(pools)

    async def travel(self, transaction: Transaction | None) -> None:
        """A message and its answer."""
        database = self.database
        await asyncio.sleep(database.latency_s())
        if database.is_away or (transaction is not None and transaction.has_ended):
            raise Unavailable("the database closed the connection")
        faults, random = database.faults, database.random
        if faults.cut and database.kind == "postgres" and random.random() < faults.cut:
            if transaction is not None:
                self._cut(transaction)
            raise Unavailable("the connection was lost")
        if faults.conflict and transaction is not None and random.random() < faults.conflict:
            raise Transient("the transaction conflicts with a concurrent one")

    def _cut(self, transaction: Transaction) -> None:
        """The database notices in a while, and holds the locks until then."""
        transaction.is_cut = True
        self.database.later(self.database.random.uniform(0, 2), self.database.end, transaction)
