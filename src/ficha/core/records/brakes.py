"""Brakes: what an operator has stopped for a while."""

from __future__ import annotations

from typing import ClassVar

from .keyed import Keyed


class Brake(Keyed, frozen=True, tag=True):
    """The brake on a tool or a pool. There is none while nothing of it is stopped."""

    is_in_every_part: ClassVar[bool] = False

    name: str
    """`tool` or `pool`, a space, and its name."""
    since_at: int
    paused: bool = False
    """Whether jobs of the tool are held back. (A pool's own record says whether the pool is paused.)"""
    settled: bool = True
    """Whether the waiting jobs of the tool have been held back, or let go, since it was last paused or resumed."""
    closed: str | None = None
    """Why submits are refused, in words for those who submit; None while they are accepted."""
