"""Figures of commits, added up."""

from __future__ import annotations

from ..records import Figures, Measures, QueueCount
from .base import Command


class FoldFigures(Command, frozen=True):
    """Adds the figures of commits to the rollups, once.

    turn: the cursor's, as it was when the commits were read. number: the last commit that was looked at.
    figures: by the time at which the commits' minute began. folded_at: up to when they tell.
    came: numbers that had been left out, and are counted now; left_out: numbers that are left out from now on.
    has_gap: whether commits were deleted before they could be counted.
    measures: those of the commits together.
    """

    turn: int
    number: int
    folded_at: int
    figures: tuple[tuple[int, Figures], ...] = ()
    came: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()
    has_gap: bool = False
    measures: Measures | None = None


class CorrectQueue(Command, frozen=True):
    """Sets how many jobs wait after the last commit that is counted, as they were counted one by one at this time."""

    turn: int
    at: int
    waiting: tuple[QueueCount, ...]


class NoteVerification(Command, frozen=True):
    """Every invariant was checked over the whole database, and so many sentences say what is wrong."""

    violations: int


class ForgetRollups(Command, frozen=True):
    """Deletes rollups whose time is over."""

    keys: tuple[str, ...]
