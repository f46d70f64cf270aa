"""Figures of commits, added up."""

from __future__ import annotations

from ..records import Figures, Measures, QueueCount
from .base import Command


class FoldFigures(Command, frozen=True):
    """Adds the figures of commits to the rollups, once.

    turn: the cursor's turn when the commits were read. number: the number of the last commit that was read.
    figures: by the start of the commits' minute. folded_at: the time up to which figures are added up after this.
    came: left-out numbers that are done with: counted now, or never used. left_out: numbers left out from now on.
    has_gap: whether commits were deleted before they could be counted.
    measures: the sum of the commits' measures.
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
    """Sets how many jobs wait after the last commit that is added up, from an exact count of the jobs at time `at`."""

    turn: int
    at: int
    waiting: tuple[QueueCount, ...]


class NoteVerification(Command, frozen=True):
    """Records that every invariant was checked over the whole database, and how many violations were found."""

    violations: int


class ForgetRollups(Command, frozen=True):
    """Deletes rollups that are older than figures are kept."""

    keys: tuple[str, ...]
