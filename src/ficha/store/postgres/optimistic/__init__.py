"""The optimistic fast path, one layer before the plain store: decide on cached rows, write only if they are unchanged.

The plain store calls it in one line and works without it. Cached rows may be old, so the one statement that writes a
group also checks, and locks, every row that the group was decided on. If a check fails, nothing is written, and the
plain path runs the group under locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ...base import Clock
from ..dialect import Layout
from .layer import OptimisticLayer
from .scan_start import ScanStarts
from .statements import PostgresRowAccess


def optimistic_layer(
    layout: Layout, signed: Callable[[Iterable[str]], list[str]], clock: Clock | None
) -> OptimisticLayer:
    """The layer over PostgreSQL; `signed` adds the store's signature to hints."""
    scans = ScanStarts()
    return OptimisticLayer(clock, scans, partial(PostgresRowAccess, layout, scans, signed, clock))
