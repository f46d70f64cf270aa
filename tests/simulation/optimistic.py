"""PostgreSQL's optimistic layer over the simulated database: looks, and a write if nothing changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ficha.core.needs import Needs
from ficha.core.snapshot import Snapshot
from ficha.store.base import Committed, CommitUnknown, Transient, Unavailable
from ficha.store.postgres.optimistic import OptimisticLayer
from ficha.store.postgres.optimistic.row_access import (
    AccountsSeen,
    CachedAccount,
    ReadySeen,
    Unchanged,
    Version,
    Written,
)
from ficha.store.postgres.optimistic.row_cache import CLOCK_SLACK_US
from ficha.store.postgres.optimistic.scan_start import ScanStarts

from .database import Transaction

if TYPE_CHECKING:
    from .store import SimulatedStore


def simulated_layer(store: SimulatedStore) -> OptimisticLayer:
    scans = ScanStarts(lambda: store.database.loop.now)
    return OptimisticLayer(None, scans, lambda connection: SimulatedRowAccess(store))


class SimulatedRowAccess:
    """One process's connection, as the layer uses it."""

    def __init__(self, store: SimulatedStore) -> None:
        self._store = store
        self._database = store.database
        self._locking: Transaction | None = None
        """The transaction that keeps accounts locked."""

    async def look_at_accounts(self, names: Sequence[str], *, locks: bool) -> AccountsSeen:
        try:
            return await self._seen(names, locks=locks)
        except BaseException:
            # A connection that is given back inside a transaction is closed.
            await self.undo()
            raise

    async def _seen(self, names: Sequence[str], *, locks: bool) -> AccountsSeen:
        database = self._database
        await self._store.travel(None)
        if locks:
            self._locking = database.begin(self._store.process)
            for name in names:
                await database.locks.wait(self._locking, ("account", name))
        found = {name: account for name in names if (account := database.state.accounts.get(name)) is not None}
        accounts = {name: CachedAccount(row, database.versions["account", name], None) for name, row in found.items()}
        seen = AccountsSeen(database.clock() if found and not locks else None, accounts)
        await self._store.travel(self._locking)
        return seen

    async def look_at_ready(self, needs: Needs) -> ReadySeen:
        database = self._database
        await self._store.travel(None)
        snapshot = database.snapshot(needs)
        ready = {key: database.versions["job", key] for keys in snapshot.ready.values() for key in keys}
        pools = {name: database.versions["pool", name] for name in needs.pools & database.state.pools.keys()}
        await self._store.travel(None)
        return ReadySeen(snapshot, ready, pools)

    async def write_if(
        self, unchanged: Unchanged, snapshot: Snapshot, committed: Committed, marker: tuple[str, int]
    ) -> Written | None:
        """One message, its commit included: whoever loses the connection meanwhile cannot know what came of it."""
        database, store = self._database, self._store
        transaction = self._locking or database.begin(store.process)
        transaction.commands = store.decisions.commands(committed.changes)
        transaction.snapshot, transaction.marker = snapshot, marker
        transaction.changes, transaction.outcomes = committed.changes, committed.outcomes
        transaction.hints = tuple(committed.hints)
        try:
            await store.travel(transaction)
            await database.locks.wait(transaction, ("committer", marker[0]))
            if not self._is_unchanged(transaction, unchanged):
                await asyncio.sleep(database.latency_s())
                return None
            await store.commit(transaction)
            return Written(transaction.version, {})
        except Transient:
            return None
        except Unavailable as error:
            raise CommitUnknown(str(error), committed) from error
        finally:
            if not transaction.is_cut and not transaction.is_committing:
                database.end(transaction)

    async def undo(self) -> None:
        locking = self._locking
        if locking is not None and not locking.is_cut and not locking.is_committing:
            self._database.end(locking)

    def _is_unchanged(self, transaction: Transaction, expected: Unchanged) -> bool:
        """Whether all is as it was seen. Locks the rows that are checked, and waits for none of them."""
        database = self._database
        jobs = {**expected.leases, **expected.ready}
        transaction.loaded_at = database.commits
        transaction.ready_before = frozenset(pool for pool in expected.nothing_ready if database.ready[pool])
        return (
            all(database.locks.take(transaction, ("account", key)) for key in sorted(expected.accounts))
            and all(database.locks.take(transaction, ("job", key)) for key in sorted(jobs))
            and all(self.is_version("account", key, seen.version) for key, seen in expected.accounts.items())
            and all(self.is_version("job", key, version) for key, version in jobs.items())
            and all(self.is_version("pool", key, version) for key, version in expected.pools.items())
            and not any(key in database.state.keys for key in expected.unused_keys)
            and self.is_nothing_ready(transaction)
            and (expected.now is None or abs(database.clock() - expected.now) < CLOCK_SLACK_US)
        )

    def is_version(self, kind: str, key: str, version: Version) -> bool:
        return self._database.versions.get((kind, key)) == version

    def is_nothing_ready(self, transaction: Transaction) -> bool:
        return not transaction.ready_before
