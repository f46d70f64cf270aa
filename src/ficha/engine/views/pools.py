"""A pool, with its slots and its queue."""

from __future__ import annotations

from msgspec import Struct

from ...core.pools import wanted_workers
from ...store.base import PoolCounts, QueueDepth


class PoolView(Struct, frozen=True, kw_only=True):
    """A pool: its slots (None for no limit), how many are busy, how many jobs are ready for one, and how many are
    parked: queued, but not to be started yet."""

    name: str
    slots: int | None
    busy: int
    ready: int
    parked: int
    paused: bool


class QueueDepthView(Struct, frozen=True, kw_only=True):
    """How much work a pool has, for whoever starts and stops workers.

    ready: jobs that could start now; counted up to a limit, so there may be more.
    running: jobs that workers have.
    busy: slots taken by those jobs, and by jobs that a provider has.
    slots: None for no limit.
    wanted_workers: for how many workers there is work now; 0 if there is none.
    """

    pool: str
    ready: int
    running: int
    busy: int
    slots: int | None
    paused: bool
    wanted_workers: int


def queue_depth_view(depth: QueueDepth, concurrency: int) -> QueueDepthView:
    pool, counts = depth.pool, {"occupied": depth.occupied, "running": depth.running, "ready": depth.ready}
    return QueueDepthView(
        pool=pool.name,
        ready=depth.ready,
        running=depth.running,
        busy=depth.occupied,
        slots=pool.limit,
        paused=pool.paused,
        wanted_workers=wanted_workers(pool, **counts, concurrency=concurrency),
    )


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
