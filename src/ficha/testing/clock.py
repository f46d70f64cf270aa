"""A clock that stands still until a test moves it."""

from __future__ import annotations

from typing import Final

_START_AT: Final = 1_767_323_045_678_901
"""2026-01-02 03:04:05.678901 UTC: a Friday, early in its day, month and year, and not on a whole millisecond."""


class ManualClock:
    """A clock for stores: call it for the present instant, in whole microseconds since 1970.

    >>> clock = ManualClock()
    >>> before = clock()
    >>> clock.advance(1.5)
    >>> clock() - before
    1500000
    """

    def __init__(self, now: int = _START_AT) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        """Moves the clock, to the nearest microsecond; a negative number moves it back."""
        self.now += round(seconds * 1_000_000)
