"""Finds which commits are settled: up to which number no further commit can appear.

PostgreSQL numbers a commit before it becomes visible, so a lower number may appear after a higher one. A reader that
must read each commit exactly once has to know up to where none is missing. A very long transaction is not waited for:
the numbers that it may have taken are left out, and looked for again until it has ended.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ..store.base import Horizon

GIVE_UP_S: Final = 60.0
"""How long a transaction is waited for. Ficha's own transactions time out sooner; a caller's own may last longer."""


class Settled(Struct, frozen=True):
    """number: no further commit can appear up to here, except from transactions that are no longer waited for.
    holes_to: up to here, such a transaction may still use a number that has no commit.
    writers: the transactions that were under way at the last observation."""

    number: int
    holes_to: int
    writers: frozenset[str]


class SettledCommits:
    """Follows the horizon. It knows nothing of what happened before its first observation."""

    def __init__(self) -> None:
        self._seen: Horizon | None = None
        self._seen_at = 0.0
        self._number = self._holes_to = 0
        self._given_up: frozenset[str] = frozenset()
        """Transactions under way that are no longer waited for."""

    def observe(self, horizon: Horizon, now: float) -> Settled:
        """Takes a horizon read just now; `now` is in seconds of a monotonic clock."""
        self._given_up &= horizon.writers
        if self._seen is not None:
            under_way = (self._seen.writers - self._given_up) & horizon.writers
            if under_way and now - self._seen_at >= GIVE_UP_S:
                self._given_up |= under_way
                under_way = frozenset()
            if not under_way:
                self._number = max(self._number, self._seen.last)
                if self._given_up:
                    self._holes_to = self._number
                self._seen = None
        if not horizon.writers:
            self._number, self._seen = max(self._number, horizon.last), None
        elif self._seen is None:
            self._seen, self._seen_at = horizon, now
        return Settled(self._number, self._holes_to, horizon.writers)
