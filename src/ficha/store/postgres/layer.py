"""What may stand before the plain path: it is asked first, and told what was loaded and committed. This one is idle."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from msgspec import Struct

from ...core.needs import Needs
from ...core.snapshot import Changes, Snapshot
from ..base import Committed, Decide, Hints
from .connections import Connection


class Group(Struct, frozen=True):
    """The calls that share a transaction, as the store is asked for it; the marker is their committer and number."""

    marker: tuple[str, int]
    needs: Needs
    decide: Decide
    hints: Hints


FIRST: Final = -(2**63)
BEYOND: Final = 2**63 - 1
Stretches = dict[str, list[tuple[str, int, int]]]
"""What of each pool's list of ready jobs to look at, in order: the pool, the first rank and the first one not to."""


class Layer:
    """Nothing before the plain path."""

    without_limit: Set[str] = frozenset()
    """Pools that had no limit when they were last seen: a claim need not have such a pool to itself."""

    def stretches(self, pools: Iterable[str]) -> Stretches:
        """Where claims from these pools are to look for jobs now: everywhere."""
        return {pool: [(pool, FIRST, BEYOND)] for pool in pools}

    async def try_transact(self, connection: Connection, group: Group) -> Committed | None:
        """Transacts in some other way, or answers None: then nothing was written, and the plain path does it."""
        return None

    def loaded(self, snapshot: Snapshot, stretches: Stretches, seconds: float) -> None:
        """The plain path has loaded this under its locks, with ready jobs from these stretches, in so many seconds."""

    def committed(self, changes: Changes, transaction_id: str) -> None:
        """The plain path has committed this, in the transaction with this id."""

    def hinted(self) -> None:
        """Another process says that there may be work."""

    def may_claim_with_submit(self, pools: Set[str]) -> bool:
        """Whether a claim may join a submit to these pools, and cost it nothing."""
        return True
