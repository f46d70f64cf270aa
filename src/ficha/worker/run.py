"""One run: a job from its claim to the moment its handler is done, and why it was stopped if it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Literal

from ..engine.views import Lease
from ..tools import Tool
from .context import Facts, JobContext
from .steps import Say

Why = Literal["lost", "timeout", "stopping"]
"""Why a run is stopped: the job is no longer this worker's (cancelled, say), its time is up, or the worker stops."""


class Run:
    """What the worker knows of a job that it runs. `is_over` once the handler is done or given up."""

    __slots__ = ("began_at", "is_over", "job", "lease", "mates", "task", "tool", "why")

    def __init__(self, lease: Lease, tool: Tool, say: Say) -> None:
        self.lease = lease
        self.tool = tool
        self.job = JobContext(facts_of(lease), say)
        self.task: asyncio.Task[None] | None = None
        self.mates: Sequence[Run] = ()
        """The runs that share its handler's call, itself among them, while a batch is under way. (What holds itself is
        left to the collector, which is dear where thousands of runs end each second.)"""
        self.why: Why | None = None
        self.is_over = False
        self.began_at = time.monotonic()

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
