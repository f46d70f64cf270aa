"""Answers claims that find nothing without a transaction, because idle workers claim again and again."""

from __future__ import annotations

import os
import time
from typing import Final

import apsw

from ...core.needs import Needs
from ...core.records import Pool
from ...core.snapshot import Snapshot
from ..sql.tables import POOLS

LOOK: Final = (
    "SELECT EXISTS (SELECT 1 FROM ready WHERE pool = k.value), k.value, p.slots, p.resized, p.paused, p.paused_tools "
    "FROM carray(?) k LEFT JOIN pools p ON p.name = k.value"
)
STANDS_S: Final = 10.0
"""How long an empty scan stays valid while the WAL is unchanged. Limited, as a file system's clock may be coarse."""

Marks = tuple[int, int]


def journal_marks(path: str) -> Marks:
    """The WAL's time and size, which change with every commit of any process."""
    try:
        found = os.stat(f"{path}-wal")
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


class Looks:
    """The state of one connection. A claim scans before it takes the write lock only if the last claim found nothing;
    while there is work, a claim is a commit group like any other."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._looks_first = False
        self._marks: Marks | None = None
        self._looked_at = 0.0
        self._pools: dict[str, Pool | None] = {}

    def found(self, needs: Needs, *, nothing: bool) -> None:
        """Notes whether a commit group found nothing."""
        if needs.ready:
            self._looks_first = nothing

    def nothing(self, db: apsw.Connection, needs: Needs, now: int) -> Snapshot | None:
        """The snapshot for a group of claims only, if nothing is ready for them; else None."""
        claims = Needs(pools=set(needs.ready), ready=needs.ready, suspects=needs.suspects)
        if not self._looks_first or not needs.ready or needs != claims:
            return None
        marks, asked_at = journal_marks(self._path), time.monotonic()
        if marks != self._marks or self._pools.keys() != needs.pools or asked_at > self._looked_at + STANDS_S:
            found = list(db.execute(LOOK, (apsw.carray(tuple(needs.ready)),)))
            if any(is_ready for is_ready, *_ in found):
                return None
            self._pools = {row[1]: None if row[-1] is None else POOLS.record(row[1:]) for row in found}
            self._marks, self._looked_at = marks, asked_at
        return Snapshot(
            now,
            pools=dict(self._pools),
            occupied=dict.fromkeys(needs.ready, 0),
            ready={pool: [] for pool in needs.ready},
        )
