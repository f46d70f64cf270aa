"""Rows that this process wrote last: a batch that needs nothing else is decided without loading anything.

Nothing here is trusted. A batch decided on remembered rows is a guess: the statement that writes it names the version
of each row that was looked at, and writes nothing unless all of them still stand (`parts.py`). Then the batch takes the
long way, under locks. A row's version is the transaction that wrote it, as PostgreSQL itself keeps it (`xmin`), so that
a change by anybody, by hand too, is seen.

A claim is decided on a look at what is ready, taken without locks, and written under the same condition. One that
waits for a submit of this process needs no look, if nothing was ready before: that nothing is becomes a condition too.
"""

from __future__ import annotations

import time
from collections.abc import Set
from typing import Any, Final

from msgspec import Struct

from ...core.needs import Needs
from ...core.records import HELD, Account, Job, Pool, Ready
from ...core.snapshot import Changes, Snapshot
from ..base import Clock
from .apply import Executor, Guard, Written
from .load import Versions, see
from .scan_start import ScanStarts
from .sql_types import instant
from .tables import ACCOUNTS
from .write_ctes import (
    ACCOUNTS_UNCHANGED,
    CLOCK_RIGHT,
    CLOCK_SLACK_US,
    KEYS_UNUSED,
    LEASES_UNCHANGED,
    NONE_READY,
    POOLS_UNCHANGED,
    READY_UNCHANGED,
)

MOST_ACCOUNTS: Final = 10_000
MOST_LEASES: Final = 10_000
SHARED_S: Final = 1.0
"""How long accounts are looked at anew for each batch, after another process turned out to write to one of them; and
how long claims take their locks first, after another process was faster."""
MOST_SEEN: Final = 20
"""Jobs that a claim most likely gets, at most, for which a look without locks pays: to find each row once more costs
more, for many, than the round trips that it saves."""
MOST_SAT_OUT: Final = 64
"""Batches in a row that take the long way, at most, where even a fresh look proves to be old."""

# ruff: noqa: S608 (texts are put together from the names in columns.py; values are always parameters)
LOOK: Final = (
    f"SELECT a.xmin::text, a.ctid::text, {instant('clock_timestamp()')}, {ACCOUNTS.selected('a')} "
    "FROM accounts a WHERE a.id = ANY ($1::text[])"
)

_NOBODY: Final[frozenset[str]] = frozenset()

Accounts = dict[str, tuple[Account, str, str]]
"""Accounts by id, each with the version and the seat of its row."""
Leases = dict[str, tuple[Job, str]]
"""Jobs that a worker or a provider has, each with the version of its lease."""


class Guess(Struct, frozen=True):
    """A snapshot that may be old, and the guard under which its batch may be written."""

    snapshot: Snapshot
    guard: Guard
    is_fresh: bool
    """Whether every account in it was read just now."""
    ready: Versions | None = None
    """The ready rows that a claim was shown."""
    claims: bool = False
    """Whether it supposes that nothing is ready in pools that it claims from."""
    tells_all: bool = False
    """Whether all of it was read just now, in one view, so that a batch that changes nothing may be told so."""

    def guarded(self, changes: Changes) -> Guard:
        """The guard, with the ready rows that the batch takes. What it leaves may become of others what it will."""
        ready = self.ready or {}
        if ids := [change.after.id for change in changes.jobs if change.after.id in ready]:
            self.guard.ask(READY_UNCHANGED, [(key, ready[key]) for key in ids])
        return self.guard


class PostgresRowCache:
    """What one store remembers, shared by its lanes."""

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock
        self._accounts: Accounts = {}
        self._leases: Leases = {}
        self._ahead_us: int | None = None
        self._latest = 0
        self._shared_until = 0.0
        self._wrong = 0
        self._sits_out = 0
        self._contested_until = 0.0
        self._is_quiet = False
        self._found = 0
        self._pools: dict[str, tuple[Pool, str]] = {}
        """Pools without a limit that claims have seen, each with its version."""

    def may_claim_with_submit(self, pools: Set[str]) -> bool:
        """Whether a submit may be joined by a claim from these pools: most likely nothing else is ready there."""
        return not pools or (
            self._is_quiet and pools <= self._pools.keys() and time.monotonic() >= self._contested_until
        )

    async def guess(self, connection: Executor, needs: Needs, heads: ScanStarts) -> Guess | None:
        """A guess at what the batch needs, after a look at accounts that are not remembered; None if it needs more."""
        if needs.ready and _only_claims(needs):
            return await self._guess_claims(connection, needs, heads)
        if self._sits_out:
            self._sits_out -= 1
            return None
        if not _is_simple(needs) or needs.pools != needs.ready.keys() or not self.may_claim_with_submit(needs.pools):
            return None
        # As they are now: another lane may forget them while accounts are looked at.
        pools = {name: self._pools[name] for name in needs.pools}
        jobs = needs.jobs | needs.owned_jobs
        if (leases := self._held(jobs) if jobs else {}) is None:
            return None
        owners = {leases[key][0].account_id for key in needs.owned_jobs} if needs.owned_jobs else _NOBODY
        names = needs.accounts | owners
        accounts = {name: known for name in names if (known := self._accounts.get(name)) is not None}
        missing: list[str] = []
        if len(accounts) < len(names):
            missing = sorted(names - accounts.keys())
            accounts.update(await self._look(connection, missing))
        now = self._now()
        if now is None or len(accounts) < len(names):
            return None
        for account, _, _ in accounts.values():
            if _needs_more(account, owners):
                return None
        snapshot = Snapshot(
            now,
            accounts={name: known[0] for name, known in accounts.items()},
            jobs={key: job for key, (job, _) in leases.items()},
            keys=dict.fromkeys(needs.keys),
            reservations_of={name: [] for name in needs.reservations_of},
            parked={name: [] for name in names},
            pools={name: pool for name, (pool, _) in pools.items()},
            occupied=dict.fromkeys(needs.ready, 0),
            ready={name: [] for name in needs.ready},
        )
        guard = self._guard(needs, accounts, leases, now)
        if pools:
            guard.ask(POOLS_UNCHANGED, [(name, version) for name, (_, version) in pools.items()])
            guard.ask(NONE_READY, [stretch for name in pools for stretch in heads.stretches(name)])
        return Guess(snapshot, guard, 0 < len(missing) == len(names), claims=bool(pools))

    async def _guess_claims(self, connection: Executor, needs: Needs, heads: ScanStarts) -> Guess | None:
        """The same for claims from pools without a limit, or where most likely nothing is ready: a look at what is,
        which locks nothing."""
        if time.monotonic() < self._contested_until:
            return None
        is_small = min(sum(needs.ready.values()), self._found) <= MOST_SEEN
        is_worth_it = self._is_quiet or (is_small and needs.ready.keys() <= heads.without_limit)
        if not is_worth_it or (leases := self._held(needs.jobs)) is None:
            return None
        snapshot, ready, pools = await see(connection, needs, self._clock, heads)
        self.heard(snapshot.now)
        self.looked(snapshot)
        self._pools.update(
            (name, (pool, version))
            for name, version in pools.items()
            if (pool := snapshot.pools[name]) is not None and pool.limit is None
        )
        if needs.pools != pools.keys() or leases.keys() & ready.keys():
            return None
        if ready and not pools.keys() <= heads.without_limit:
            return None
        snapshot.jobs.update((key, job) for key, (job, _) in leases.items())
        guard = self._guard(needs, {}, leases, snapshot.now)
        guard.ask(POOLS_UNCHANGED, [*pools.items()])
        return Guess(snapshot, guard, is_fresh=False, ready=ready, tells_all=not leases)

    def _held(self, jobs: set[str]) -> Leases | None:
        found = {key: known for key in jobs if (known := self._leases.get(key)) is not None}
        return found if len(found) == len(jobs) else None

    async def _look(self, connection: Executor, names: list[str]) -> Accounts:
        rows = await connection.fetch(LOOK, names)
        if rows:
            self.heard(rows[0][2])
        return {row[3]: (Account(*row[3:]), row[0], row[1]) for row in rows}

    def _guard(self, needs: Needs, accounts: Accounts, leases: Leases, now: int) -> Guard:
        """In key order, like all that locks rows."""
        guard = Guard({name: known[2] for name, known in accounts.items()})
        if accounts:
            guard.ask(ACCOUNTS_UNCHANGED, [(name, *accounts[name][1:]) for name in sorted(accounts)])
        if leases:
            guard.ask(LEASES_UNCHANGED, [(key, leases[key][1]) for key in sorted(leases)])
        if needs.keys:
            guard.ask(KEYS_UNUSED, sorted(needs.keys))
        if self._clock is None:
            guard.ask(CLOCK_RIGHT, [(now,)])
        return guard

    # What came of it

    def learn(self, changes: Changes, written: Written) -> None:
        """A batch was committed: this is what its rows are now, and where."""
        if time.monotonic() >= self._shared_until:
            for account in changes.accounts:
                self._accounts.pop(account.id, None)
                self._accounts[account.id] = account, written.version, written.seats[account.id]
            _trim(self._accounts, MOST_ACCOUNTS)
        for change in changes.jobs:
            self._leases.pop(change.after.id, None)
            if isinstance(change.after.place, HELD):
                self._leases[change.after.id] = change.after, written.version
        _trim(self._leases, MOST_LEASES)
        # A job that ends makes room for another only where there is a limit.
        jobs = (change.after for change in changes.jobs)
        if any(isinstance(job.place, Ready) or job.spec.pool not in self._pools for job in jobs):
            self.stirred()

    # Whether it is worth a look without locks

    def looked(self, snapshot: Snapshot) -> None:
        """What claims were shown: until there is word of a job, the next ones will not find any either."""
        if snapshot.ready:
            self._found = sum(map(len, snapshot.ready.values()))
            self._is_quiet = not self._found

    def stirred(self) -> None:
        """There may be work."""
        self._is_quiet = False

    def was_right(self) -> None:
        self._wrong = 0

    def was_wrong(self, guess: Guess) -> None:
        """Somebody else writes to these rows, or a key was used before: be more careful for a while."""
        for key in guess.snapshot.jobs:
            self._leases.pop(key, None)
        if guess.ready is not None or guess.claims:
            self._contested_until = time.monotonic() + SHARED_S
            self._pools.clear()
        if guess.ready is not None:
            return
        self._accounts.clear()
        self._shared_until = time.monotonic() + SHARED_S
        if guess.is_fresh:
            self._wrong += 1
            self._sits_out = min(2**self._wrong, MOST_SAT_OUT)

    # The database's clock, without asking

    def heard(self, now: int) -> None:
        """What the database's clock showed a moment ago."""
        self._ahead_us = now - time.monotonic_ns() // 1_000

    def _now(self) -> int | None:
        """The time, a little late and never earlier than the last one told, unless the database's clock was set back.

        So no row is written with a time before the one at which it was seen.
        """
        if self._clock is not None:
            return self._clock()
        if self._ahead_us is None:
            return None
        now = self._ahead_us + time.monotonic_ns() // 1_000
        if now < self._latest < now + CLOCK_SLACK_US:
            now = self._latest
        self._latest = now
        return now


def _is_simple(needs: Needs) -> bool:
    """Whether accounts, leases and unused keys are all that it needs, besides what claims do."""
    return not (
        needs.steps
        or needs.contents
        or needs.reservations
        or needs.payloads
        or needs.parked_of
        or needs.leaders
        or needs.batches
        or needs.api_keys
        or needs.api_keys_of
    )


def _only_claims(needs: Needs) -> bool:
    """Whether it is for claims, beside which leases are all that it needs."""
    others = (name for name in needs.__struct_fields__ if name not in ("ready", "pools", "jobs"))
    return needs.pools == needs.ready.keys() and not any(getattr(needs, name) for name in others)


def _needs_more(account: Account, owners: Set[str]) -> bool:
    """Whether reservations or parked jobs of this account would have to be loaded too."""
    return bool(account.reserved or (account.parked and account.id in owners))


def _trim(rows: dict[str, Any], most: int) -> None:
    """Forgets what was written longest ago."""
    while len(rows) > most:
        del rows[next(iter(rows))]
