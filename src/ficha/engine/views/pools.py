"""A pool, with its slots and its queue."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ...core.pools import wanted_workers, work_of
from ...store.base import PoolCounts, QueueDepth


class PoolView(Struct, frozen=True, kw_only=True):
    """A pool: its slots (None for no limit), how many are busy, how many jobs are ready for one, and how many are
    parked: queued, but not to be started yet. `paused_tools` start nothing in it."""

    name: str
    slots: int | None
    busy: int
    ready: int
    parked: int
    paused: bool
    paused_tools: tuple[str, ...] = ()


class QueueDepthView(Struct, frozen=True, kw_only=True):
    """How much work a pool has, or several together, for whoever starts and stops workers.

    pool: its name; of several, their names, separated by commas.
    ready: jobs that could start now; counted up to a limit, so there may be more.
    running: jobs that workers have.
    busy: slots taken by those jobs, and by jobs that a provider has.
    slots: None for no limit.
    paused: whether none of them starts jobs.
    wanted_workers: for how many workers there is work now; 0 if there is none.
    """

    pool: str
    ready: int
    running: int
    busy: int
    slots: int | None
    paused: bool
    wanted_workers: int


def queue_depth_view(depths: Sequence[QueueDepth], concurrency: int) -> QueueDepthView:
    limits = [depth.pool.limit for depth in depths]
    bounded = [limit for limit in limits if limit is not None]
    work = sum(
        work_of(depth.pool, occupied=depth.occupied, running=depth.running, ready=depth.ready) for depth in depths
    )
    return QueueDepthView(
        pool=",".join(depth.pool.name for depth in depths),
        ready=sum(depth.ready for depth in depths),
        running=sum(depth.running for depth in depths),
        busy=sum(depth.occupied for depth in depths),
        slots=sum(bounded) if len(bounded) == len(limits) else None,
        paused=all(depth.pool.paused for depth in depths),
        wanted_workers=wanted_workers(work, concurrency),
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
        paused_tools=pool.paused_tools,
    )
