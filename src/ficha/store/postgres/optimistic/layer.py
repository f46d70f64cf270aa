"""Which groups may be decided on cached rows, the conditions under which they are written, and what is cached after.

A group that needs only accounts, leases and unused keys is decided on the cached rows; accounts that are not cached are
read first, and locked if other processes keep writing to them. Claims are decided on a scan of the ready jobs. A claim
that waits for a submit of this process needs no scan if nothing was ready before: that nothing is ready becomes a
condition of the write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Set
from typing import Any, Final

from msgspec import Struct

from ....core.needs import Needs
from ....core.records import Account, Ready
from ....core.snapshot import Changes, Snapshot
from ...base import Clock, Committed
from ..layer import Group, Layer, Stretches
from .row_access import RowAccess, Unchanged, Versions, Written
from .row_cache import RowCache
from .scan_start import ScanStarts

SHARED_S: Final = 1.0
"""How long accounts are read for each group after another process wrote to a cached one, and how long claims take the
plain path after another process took the same jobs first."""
MOST_SEEN: Final = 20
"""The most jobs for which a claim first scans without locks. With more, finding each row a second time costs more than
the round trips saved."""
LOCKED_GROUPS: Final = 32
"""After a miss on accounts just read, how many groups in a row lock their accounts first."""
MOST_JOBS: Final = 1_000
"""The most jobs that a group may change on this path: with many more, the time of its decision is too old when it is
written."""

_NOBODY: Final[frozenset[str]] = frozenset()
_SIMPLE: Final = ("accounts", "jobs", "owned_jobs", "keys", "reservations_of", "pools", "ready", "suspects", "looked")
_MORE_THAN_SIMPLE: Final = tuple(name for name in Needs.__struct_fields__ if name not in _SIMPLE)


class Guess(Struct, frozen=True):
    """A snapshot that may be old, and what must be unchanged for its group to be written."""

    snapshot: Snapshot
    unchanged: Unchanged
    is_fresh: bool = False
    """Whether every account in it was read just now, without locks."""
    ready: Versions | None = None
    """The ready rows that a claim was decided on."""
    is_claim: bool = False
    """Whether the group has claims, alone or beside a submit."""
    tells_all: bool = False
    """Whether all of it was read just now, in one view, so that it may answer a group that changes nothing."""


class OptimisticLayer(Layer):
    """One per store, shared by its committers.

    clock: the time in place of the database's. For tests.
    scans: where claims begin to scan.
    row_access: wraps a connection for the layer.
    """

    def __init__(self, clock: Clock | None, scans: ScanStarts, row_access: Callable[[Any], RowAccess]) -> None:
        self.cache = RowCache(clock)
        self.scans = scans
        self.without_limit = scans.without_limit
        self._is_own_clock = clock is not None
        self._row_access = row_access
        self._shared_until = 0.0
        self._contested_until = 0.0
        self._locked_groups = 0
        """How many more groups lock their accounts before they are decided."""
        self._is_quiet = False
        """Whether the last scan found nothing ready, and no hint of a job has come since."""
        self._found = 0

    async def try_transact(self, connection: Any, group: Group) -> Committed | None:
        """Decides on cached rows and writes in one statement; None if that is not possible, or if they were old.

        A refusal is never based on cached rows alone: a group that would change nothing is decided again under locks,
        unless it only claims, because then all rows were read just now.
        """
        rows = self._row_access(connection)
        if (done := await self._try(rows, group)) is None:
            await rows.undo()
        return done

    async def _try(self, rows: RowAccess, group: Group) -> Committed | None:
        guess = await self._guess(rows, group.needs)
        if guess is None:
            return None
        changes, outcomes = group.decide(guess.snapshot)
        if not changes or len(changes.jobs) > MOST_JOBS:
            return Committed(changes, outcomes) if guess.tells_all and not changes else None
        committed = Committed(changes, outcomes, group.hints(changes))
        unchanged = guess.unchanged
        if guess.ready:
            # Only the ready rows that the group takes; others may take the rest meanwhile.
            unchanged.ready = {
                change.after.id: guess.ready[change.after.id]
                for change in changes.jobs
                if change.after.id in guess.ready
            }
        written = await rows.write_if(unchanged, guess.snapshot, committed, group.marker)
        if written is None:
            self._was_wrong(guess)
            return None
        self._learn(changes, written)
        return committed

    def stretches(self, pools: Iterable[str]) -> Stretches:
        return self.scans.of(pools)

    def loaded(self, snapshot: Snapshot, stretches: Stretches, seconds: float) -> None:
        self.scans.saw(stretches, snapshot, seconds)
        self._looked(snapshot)

    def _looked(self, snapshot: Snapshot) -> None:
        self.cache.heard(snapshot.now)
        if snapshot.ready:
            self._found = sum(map(len, snapshot.ready.values()))
            self._is_quiet = not self._found

    def committed(self, changes: Changes, version: str) -> None:
        self._learn(changes, Written(version, {}))

    def connected(self) -> None:
        self.cache.clear()

    def hinted(self) -> None:
        self._is_quiet = False

    def may_claim_with_submit(self, pools: Set[str]) -> bool:
        """Whether most likely nothing else is ready in these pools, and none of them has a limit."""
        return not pools or (
            self._is_quiet and pools <= self.cache.pools.keys() and time.monotonic() >= self._contested_until
        )

    # The snapshot to decide on

    async def _guess(self, rows: RowAccess, needs: Needs) -> Guess | None:
        if needs.ready and _only_claims(needs):
            return await self._guess_claims(rows, needs)
        if not _is_simple(needs) or needs.pools != needs.ready.keys() or not self.may_claim_with_submit(needs.pools):
            return None
        locks = self._locked_groups > 0
        self._locked_groups -= locks
        cache = self.cache
        # Copied now: another committer may drop them while accounts are read.
        pools = {name: cache.pools[name] for name in needs.pools}
        leases = cache.held(needs.jobs | needs.owned_jobs) if needs.jobs or needs.owned_jobs else {}
        if leases is None:
            return None
        owners = {leases[key][0].account_id for key in needs.owned_jobs} if needs.owned_jobs else _NOBODY
        names = needs.accounts | owners
        accounts = {} if locks else {name: known for name in names if (known := cache.accounts.get(name)) is not None}
        missing = sorted(names - accounts.keys())
        if missing:
            seen = await rows.look_at_accounts(missing, locks=locks)
            if seen.now is not None:
                cache.heard(seen.now)
            accounts.update(seen.accounts)
        now = cache.now()
        if now is None or len(accounts) < len(names):
            return None
        if any(_needs_more(known.account, owners) for known in accounts.values()):
            self._locked_groups = 0
            return None
        snapshot = needs.nothing(now)
        snapshot.accounts.update((name, known.account) for name, known in accounts.items())
        snapshot.jobs.update((key, job) for key, (job, _) in leases.items())
        snapshot.parked.update((name, []) for name in names)
        snapshot.pools.update((name, pool) for name, (pool, _) in pools.items())
        unchanged = Unchanged(
            accounts=accounts,
            leases={key: version for key, (_, version) in leases.items()},
            pools={name: version for name, (_, version) in pools.items()},
            unused_keys=needs.keys,
            no_brakes=needs.looked,
            nothing_ready=needs.ready,
            now=None if self._is_own_clock else now,
        )
        return Guess(snapshot, unchanged, is_fresh=not locks and 0 < len(missing) == len(names), is_claim=bool(pools))

    async def _guess_claims(self, rows: RowAccess, needs: Needs) -> Guess | None:
        """Guesses for claims, by a scan without locks, if the pools have no limit or most likely nothing is ready."""
        if time.monotonic() < self._contested_until:
            return None
        is_small = min(sum(needs.ready.values()), self._found) <= MOST_SEEN
        is_worth_it = self._is_quiet or (is_small and needs.ready.keys() <= self.without_limit)
        if not is_worth_it or (leases := self.cache.held(needs.jobs)) is None:
            return None
        seen = await rows.look_at_ready(needs)
        snapshot, ready, pools = seen.snapshot, seen.ready, seen.pools
        self._looked(snapshot)
        for name, version in pools.items():
            self.cache.pools.pop(name, None)
            if (pool := snapshot.pools[name]) is not None and pool.limit is None:
                self.cache.pools[name] = (pool, version)
        # The guard does not check the contents of jobs.
        if needs.pools != pools.keys() or leases.keys() & ready.keys() or snapshot.add_contents():
            return None
        if ready and not pools.keys() <= self.cache.pools.keys():
            return None
        snapshot.jobs.update((key, job) for key, (job, _) in leases.items())
        unchanged = Unchanged(
            leases={key: version for key, (_, version) in leases.items()},
            pools=pools,
            now=None if self._is_own_clock else snapshot.now,
        )
        return Guess(snapshot, unchanged, ready=ready, is_claim=True, tells_all=not leases)

    # After the write

    def _learn(self, changes: Changes, written: Written) -> None:
        self.cache.learn(changes, written, accounts=time.monotonic() >= self._shared_until)
        # The end of a job makes another one claimable only if the pool has a limit.
        jobs = (change.after for change in changes.jobs)
        if any(isinstance(job.place, Ready) or job.spec.pool not in self.cache.pools for job in jobs):
            self._is_quiet = False

    def _was_wrong(self, guess: Guess) -> None:
        """Called when another process wrote to these rows, or a key was used before: drops the rows from the cache, and
        tries less for a while."""
        for key in guess.snapshot.jobs:
            self.cache.leases.pop(key, None)
        if guess.is_claim:
            self._contested_until = time.monotonic() + SHARED_S
            self.cache.pools.clear()
        if guess.ready is not None:
            return
        self.cache.accounts.clear()
        self._shared_until = time.monotonic() + SHARED_S
        if guess.is_fresh:
            self._locked_groups = LOCKED_GROUPS


def _is_simple(needs: Needs) -> bool:
    """Whether it needs only accounts, leases and unused keys, besides what claims need."""
    return not any(getattr(needs, name) for name in _MORE_THAN_SIMPLE)


def _only_claims(needs: Needs) -> bool:
    """Whether it needs only what claims need, and leases."""
    others = (name for name in needs.__struct_fields__ if name not in ("ready", "suspects", "pools", "jobs"))
    return needs.pools == needs.ready.keys() and not any(getattr(needs, name) for name in others)


def _needs_more(account: Account, owners: Set[str]) -> bool:
    """Whether reservations or parked jobs of this account must be loaded too."""
    return bool(account.reserved or (account.parked and account.id in owners))
