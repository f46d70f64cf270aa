"""One run: a job from its claim to the moment its handler is done, and why it was stopped if it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ..engine.views import Lease
from ..tools import Tool
from .context import Facts, JobContext
from .steps import Say

Why = Literal["lost", "timeout", "stopping"]
"""Why a run is stopped: the job is no longer this worker's (cancelled, say), its time is up, or the worker stops."""


class Run(Struct, eq=False, gc=False):
    """What the worker knows of a job that it runs. `is_over` once the handler is done or given up.

    mates: the runs that share its handler's call, itself among them, while that call is under way.

    What it refers to and is referred by, its task and its mates, it lets go of when it is over: so nothing is left to
    the collector, which would be dear where thousands of runs end each second.
    """

    lease: Lease
    tool: Tool
    job: JobContext
    began_at: float
    task: asyncio.Task[None] | None = None
    mates: Sequence[Run] = ()
    why: Why | None = None
    is_over: bool = False

    @classmethod
    def of(cls, lease: Lease, tool: Tool, say: Say) -> Run:
        return cls(lease, tool, JobContext(facts_of(lease), say), time.monotonic())

    def over(self) -> None:
        self.is_over = True
        self.task = None
        self.mates = ()
        self.job.finished()

    @property
    def duration_s(self) -> float:
        return time.monotonic() - self.began_at


def facts_of(lease: Lease) -> Facts:
    """The job as its handler may see it."""
    job, point = lease.core.job, lease.core.job.checkpoint
    return Facts(
        job.id,
        job.account_id,
        job.tool,
        job.attempts + 1,
        lease.epoch,
        lease.worker,
        lease.core.payload,
        job.correlation_id,
        job.session,
        job.batch_id,
        None if point is None else point.name or None,
        0 if point is None else point.progress,
        "null" if point is None or not point.name else point.data,
    )
