"""Questions about pools and the workers that serve them."""

from __future__ import annotations

from msgspec import Struct

from ...core.records import Pool, Tally, Worker
from .query import Query


class PoolCounts(Struct, frozen=True):
    pool: Pool
    occupied: int
    ready: int
    parked: int


class ListPools(Query[list[PoolCounts]], frozen=True):
    """All pools, by name."""

    count_waiting: bool = True
    """Whether to count ready and parked jobs, which takes longer the more there are. If False, both are 0."""


class QueueDepth(Struct, frozen=True):
    """A pool, how many of its slots are taken, how many of those jobs a worker has (a provider has the others), and how
    many jobs are ready for a slot."""

    pool: Pool
    occupied: int
    running: int
    ready: int


class GetQueueDepth(Query[QueueDepth | None], frozen=True):
    """One pool; None if there is none of this name."""

    pool: str
    count_up_to: int
    """The count of ready jobs ends at this number."""


class WorkerCounts(Struct, frozen=True):
    """A worker that has registered itself or claimed a job.

    worker: its registration; None if it never registered.
    tallies: its runs, counted by how they ended.
    running, stuck: how many jobs it holds now, and how many of them had no heartbeat for `stuck_ms`.
    """

    name: str
    worker: Worker | None
    tallies: tuple[Tally, ...]
    running: int
    stuck: int


class WorkerList(Struct, frozen=True):
    now: int
    workers: list[WorkerCounts]


class ListWorkers(Query[WorkerList], frozen=True):
    """By name, ascending, after `after`, with the time by the database's clock."""

    stuck_ms: int
    after: str | None = None
    limit: int = 50
