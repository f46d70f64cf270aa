"""Which commits are settled: up to which number no further one appears.

PostgreSQL gives a commit its number before it becomes visible, so a lower number may show up after a higher one.
Whoever reads each commit exactly once has to know up to where nothing is missing. A transaction that lasts very long is
not waited for: the numbers that it may have taken are left out, and looked for again until it has ended.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ..store.base import Horizon

GIVE_UP_S: Final = 60.0
"""How long a transaction is waited for. Ficha's own end sooner, by their time-outs; a caller's own may last longer."""


class Settled(Struct, frozen=True):
    """number: no commit appears up to here any more, but for those of transactions that are not waited for.
    holes_to: up to this number, one without a commit may still be used by such a transaction.
    is_final: whether none is under way any more that may use a number that was left out before."""

    number: int
    holes_to: int
    is_final: bool


class SettledCommits:
    """Follows the horizon. It knows nothing of what happened before its first look."""

    def __init__(self) -> None:
        self._seen: Horizon | None = None
        self._seen_at = 0.0
        self._number = self._holes_to = 0
        self._elders: frozenset[str] | None = None
        """The transactions that were under way at the first look, and those that are no longer waited for."""
        self._given_up: frozenset[str] = frozenset()

    def observe(self, horizon: Horizon, now: float) -> Settled:
        """What follows from a horizon that was read just now; `now` in seconds of a clock that never goes back."""
        if self._elders is None:
            self._elders = horizon.writers
        self._elders &= horizon.writers
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
        return Settled(self._number, self._holes_to, is_final=not self._elders and not self._given_up)
