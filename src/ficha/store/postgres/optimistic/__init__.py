"""The optimistic fast path, as one layer before the plain store: decide on cached rows, write only if they still stand.

The plain store calls it in one line and works without it. Nothing here is trusted: a group decided on cached rows is a
guess, and the one statement that writes it also checks, and locks, every row that it was decided on. Where a check
fails nothing is written, and the plain path runs the group under locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ...base import Clock
from ..dialect import Layout
from .layer import OptimisticLayer
from .scan_start import ScanStarts
from .statements import PostgresSession


def optimistic_layer(
    layout: Layout, signed: Callable[[Iterable[str]], list[str]], clock: Clock | None
) -> OptimisticLayer:
    """The layer over PostgreSQL; `signed` makes of hints what travels."""
    scans = ScanStarts()
    return OptimisticLayer(clock, scans, partial(PostgresSession, layout, scans, signed, clock))
