"""A pool, with its slots and its queue."""

from __future__ import annotations

from msgspec import Struct

from ...store.base import PoolCounts


class PoolView(Struct, frozen=True, kw_only=True):
    """A pool: its slots (None for no limit), how many are busy, how many jobs are ready for one, and how many are
    parked: queued, but not to be started yet."""

    name: str
    slots: int | None
    busy: int
    ready: int
    parked: int
    paused: bool


def pool_view(counts: PoolCounts) -> PoolView:
    pool = counts.pool
    return PoolView(
        name=pool.name,
        slots=pool.limit,
        busy=counts.occupied,
        ready=counts.ready,
        parked=counts.parked,
        paused=pool.paused,
    )
