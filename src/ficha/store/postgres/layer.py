"""The interface of a layer before the plain path: it is tried first, and notified of what was loaded and committed."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from msgspec import Struct

from ...core.needs import Needs
from ...core.snapshot import Changes, Snapshot
from ..base import Committed, Decide, Hints
from .connections import Connection


class Group(Struct, frozen=True):
    """The arguments of one `transact`; the marker is the committer and its number."""

    marker: tuple[str, int]
    needs: Needs
    decide: Decide
    hints: Hints


FIRST: Final = -(2**63)
BEYOND: Final = 2**63 - 1
Stretches = dict[str, list[tuple[str, int, int]]]
"""The ranges of each pool's ready jobs to scan, in order: the pool, the first rank, and the rank where to stop."""


class Layer:
    """A layer that does nothing: every group takes the plain path."""

    without_limit: Set[str] = frozenset()
    """Pools that had no limit when they were last read: a claim need not lock them."""

    def stretches(self, pools: Iterable[str]) -> Stretches:
        """The ranges that claims from these pools scan now: everything."""
        return {pool: [(pool, FIRST, BEYOND)] for pool in pools}

    async def try_transact(self, connection: Connection, group: Group) -> Committed | None:
        """Runs the group in another way, or returns None: then nothing was written, and the plain path runs it."""
        return None

    def loaded(self, snapshot: Snapshot, stretches: Stretches, seconds: float) -> None:
        """Called when the plain path has loaded this snapshot under its locks, with ready jobs from these ranges, in
        that many seconds."""

    def committed(self, changes: Changes, version: str) -> None:
        """Called when the plain path has committed these changes; all rows that it wrote have this version."""

    def connected(self) -> None:
        """Called when a new connection was made: the server may have crashed, or another one may have taken over."""

    def hinted(self) -> None:
        """Called when another process has sent a hint that there may be work."""

    def may_claim_with_submit(self, pools: Set[str]) -> bool:
        """Whether a claim may join a submit to these pools without delaying it."""
        return True
