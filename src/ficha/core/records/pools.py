"""Pools, the workers that serve them, and shared duties, which one of many processes has at a time."""

from __future__ import annotations

from typing import Literal

from .base import Record
from .keyed import Keyed

TallyKind = Literal["claimed", "completed", "failed", "cancelled", "retried", "recovered", "returned", "accepted"]
"""`claimed` counts runs that began, the others the ways in which runs end: each run ends at most once."""


class Pool(Record, frozen=True):
    """Slots shared by tools, across all machines. `slots` comes from the application, `resized` from an operator."""

    name: str
    slots: int | None = None
    resized: int | None = None
    paused: bool = False
    paused_tools: tuple[str, ...] = ()
    """The tools whose jobs are held back: a claim reads this row anyway."""

    @property
    def limit(self) -> int | None:
        """How many jobs of the pool may be started or running at once; None for no limit."""
        return self.slots if self.resized is None else self.resized


class Worker(Record, frozen=True):
    """A worker's registration, as the worker itself reports it. A caller that only claims need not register."""

    name: str
    host: str
    pid: int
    pools: tuple[str, ...]
    concurrency: int
    version: str
    heartbeat_ms: int
    """How often it intends to send a heartbeat."""
    started_at: int
    seen_at: int
    stopped_at: int | None = None
    problem: str | None = None
    """What keeps it from its work, such as a tool that could not be set up."""


class Tally(Record, frozen=True):
    """How many runs of a worker began, or ended in one way, and how long they took together."""

    worker: str
    kind: TallyKind
    runs: int
    busy_us: int = 0


class Leader(Keyed, frozen=True, tag=True):
    """Which of many processes has a shared duty, and until when."""

    name: str
    owner: str
    expires_at: int
