"""Whether this process may act by its clock, where each process goes by its own and not by the database's.

What others committed, and a clock that does not jump, show whether the wall clock can be right. Which of two that
disagree is right, nobody can know; so a process that finds a disagreement acts upon no time for a while. Whoever lives
renews its leases meanwhile.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from .policy import SECOND

APART: Final = 5 * SECOND
"""Clocks that are no further apart agree: commits take a moment."""


class ClockLook(Struct, frozen=True):
    """What one look saw.

    now: this process's wall clock. ticks_s: its monotonic clock at the same moment.
    number: of the newest commit. theirs: the times of the commits of other processes since the last look, newest
        first; at the first look, of some of the newest.
    is_over: whether a lease or a provider's wait is over by `now`. Only looked at the first time.
    """

    now: int
    ticks_s: float
    number: int
    theirs: list[int] = []
    is_over: bool = False


class ClockCheck:
    """One per process. A doubt ends `hold_s` after the last disagreement, which must be long enough for living workers
    to renew their leases."""

    def __init__(self, hold_s: float) -> None:
        self.hold_s = hold_s
        self.doubt: str | None = None
        """Why this process acts upon no time now; None if it may."""
        self._last: ClockLook | None = None
        self._doubts_until_s = 0.0

    @property
    def seen(self) -> int | None:
        """The newest commit that was looked at; None before the first look."""
        return None if self._last is None else self._last.number

    def judge(self, look: ClockLook) -> str | None:
        """Returns the doubt, if there is one."""
        found = _at_first(look) if self._last is None else _since(self._last, look)
        self._last = look
        if found is not None:
            self.doubt = found
            self._doubts_until_s = look.ticks_s + self.hold_s
        elif look.ticks_s >= self._doubts_until_s:
            self.doubt = None
        return self.doubt


def _at_first(look: ClockLook) -> str | None:
    if not look.theirs:
        return None
    age = look.now - look.theirs[0]
    if age < -APART:
        return _written(-age, "ahead of")
    # An idle database looks the same. It matters only if somebody may be at work by a clock that is behind this one.
    if age > APART and look.is_over:
        return f"the last commit is {_seconds(age)} old, and held jobs look abandoned; perhaps this clock is wrong"
    return None


def _since(last: ClockLook, look: ClockLook) -> str | None:
    jump = look.now - last.now - int((look.ticks_s - last.ticks_s) * SECOND)
    if abs(jump) > APART:
        return f"this machine's clock jumped {_seconds(abs(jump))} {'ahead' if jump > 0 else 'back'}, or it slept"
    if not look.theirs:
        return None
    if (ahead := max(look.theirs) - look.now) > APART:
        return _written(ahead, "ahead of")
    if (behind := last.now - min(look.theirs)) > APART:
        return _written(behind, "behind")
    return None


def _written(apart: int, where: str) -> str:
    return f"another process committed by a clock that is {_seconds(apart)} {where} this process's"


def _seconds(microseconds: int) -> str:
    return f"{microseconds / SECOND:.0f} s"
