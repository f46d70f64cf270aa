"""The rows that this process wrote last, with their versions, and the database's clock.

A row's version is the transaction that wrote it, as the database itself keeps it, so that a change by anybody, by hand
too, is found out.
"""

from __future__ import annotations

import time
from typing import Any, Final

from ....core.records import HELD, Job, Pool
from ....core.snapshot import Changes
from ...base import Clock
from .session import CachedAccount, Version, Written

MOST_ACCOUNTS: Final = 10_000
MOST_LEASES: Final = 10_000
CLOCK_SLACK_US: Final = 500_000
"""How far this process's idea of the database's clock may be off."""

Leases = dict[str, tuple[Job, Version]]
"""Jobs that a worker or a provider has, each with the version of its lease."""
Pools = dict[str, tuple[Pool, Version]]


class RowCache:
    """What one store has cached, shared by its committers."""

    def __init__(self, clock: Clock | None) -> None:
        self.accounts: dict[str, CachedAccount] = {}
        self.leases: Leases = {}
        self.pools: Pools = {}
        """Pools without a limit that claims have seen."""
        self._clock = clock
        self._ahead_us: int | None = None
        self._latest = 0

    def held(self, jobs: set[str]) -> Leases | None:
        """The leases of these jobs, if all of them are cached."""
        found = {key: known for key in jobs if (known := self.leases.get(key)) is not None}
        return found if len(found) == len(jobs) else None

    def learn(self, changes: Changes, written: Written, *, accounts: bool) -> None:
        """A group was committed: this is what its rows are now. Accounts are left out where others write to them."""
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

    # The database's clock, without asking

    def heard(self, now: int) -> None:
        """What the database's clock showed a moment ago."""
        self._ahead_us = now - time.monotonic_ns() // 1_000

    def now(self) -> int | None:
        """The time, a little late and never earlier than the last one told, unless the database's clock was set back.

        So no row is written with a time before the one at which it was seen. None if the clock is not known yet.
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
    """Drops what was written longest ago."""
    while len(rows) > most:
        del rows[next(iter(rows))]
