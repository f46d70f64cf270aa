"""Caches the rows that this process wrote last, with their versions, and the offset of the database's clock.

A row's version is the transaction that wrote it, as the database itself stores it, so that every change is detected,
also one made by hand; and the server, because on another one the same transaction may have written something else.
"""

from __future__ import annotations

import time
from typing import Any, Final

from ....core.records import HELD, Job, Pool
from ....core.snapshot import Changes
from ...base import Clock
from .row_access import CachedAccount, Version, Written

MOST_ACCOUNTS: Final = 10_000
MOST_LEASES: Final = 10_000
CLOCK_SLACK_US: Final = 500_000
"""How far this process's estimate of the database's clock may be off."""

Leases = dict[str, tuple[Job, Version]]
"""Jobs held by a worker or a provider, each with the version of its lease."""
Pools = dict[str, tuple[Pool, Version]]


class RowCache:
    """The cache of one store, shared by its committers."""

    def __init__(self, clock: Clock | None) -> None:
        self.accounts: dict[str, CachedAccount] = {}
        self.leases: Leases = {}
        self.pools: Pools = {}
        """Pools without a limit that claims have read."""
        self._clock = clock
        self._ahead_us: int | None = None
        self._latest = 0

    def held(self, jobs: set[str]) -> Leases | None:
        """The leases of these jobs, if all of them are cached."""
        found = {key: known for key in jobs if (known := self.leases.get(key)) is not None}
        return found if len(found) == len(jobs) else None

    def learn(self, changes: Changes, written: Written, *, accounts: bool) -> None:
        """Caches the rows of a committed group. Without `accounts` it leaves out accounts, which others write to."""
        for account in changes.accounts:
            self.accounts.pop(account.id, None)
            if accounts:
                position = written.positions.get(account.id)
                self.accounts[account.id] = CachedAccount(account, written.version, position)
        _trim(self.accounts, MOST_ACCOUNTS)
        for change in changes.jobs:
            self.leases.pop(change.after.id, None)
            if isinstance(change.after.place, HELD):
                self.leases[change.after.id] = change.after, written.version
        _trim(self.leases, MOST_LEASES)

    def clear(self) -> None:
        for rows in (self.accounts, self.leases, self.pools):
            rows.clear()

    # The database's clock, without a query

    def heard(self, now: int) -> None:
        """Notes what the database's clock showed a moment ago."""
        self._ahead_us = now - time.monotonic_ns() // 1_000

    def now(self) -> int | None:
        """The time, a little late and never earlier than the last one returned, unless the database's clock went back.

        So no row is written with a time before the time at which it was read. None if the clock is not known yet.
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


def _trim(rows: dict[str, Any], most: int) -> None:
    """Drops the rows that were written longest ago."""
    while len(rows) > most:
        del rows[next(iter(rows))]
