"""One run: a job from its claim until its handler is done, and why it was stopped if it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from ..engine.views import Lease
from ..tools import Tool
from .context import Facts, JobContext

if TYPE_CHECKING:
    from ..tracing import Span
    from .lease_writer import LeaseWriter

_SHARED: Final = ("worker", "tool", "attempt", "status", "duration_s")

StopReason = Literal["lost", "timeout", "stopping"]
"""lost: the job is no longer this worker's, for example because it was cancelled. timeout: its time is up. stopping:
the worker stops."""


class Run(Struct, eq=False, gc=False):
    """The worker's state of one running job. `is_over` once the handler is done or given up.

    writer: writes what the run reports. span: the span of this run, if tracing is on.
    call_group: all runs that share this call of the handler, itself included; empty if a call takes one job.

    `close` drops the task and the group, the only reference cycles, so no garbage collection is needed, which would be
    expensive when thousands of runs end each second.
    """

    lease: Lease
    tool: Tool
    job: JobContext
    began_at: float
    writer: LeaseWriter
    task: asyncio.Task[None] | None = None
    call_group: Sequence[Run] = ()
    stop_reason: StopReason | None = None
    is_over: bool = False
    span: Span | None = None

    @classmethod
    def of(cls, lease: Lease, tool: Tool, writer: LeaseWriter) -> Run:
        return cls(lease, tool, JobContext(facts_of(lease), writer), time.monotonic(), writer)

    def close(self) -> None:
        self.is_over = True
        self.task = None
        self.call_group = ()
        self.job.finished()

    @property
    def duration_s(self) -> float:
        return time.monotonic() - self.began_at


def facts_of(lease: Lease) -> Facts:
    """What a handler may see of its job."""
    job, point = lease.claimed.job, lease.claimed.job.checkpoint
    return Facts(
        job.id,
        job.account_id,
        job.spec,
        job.attempts + 1,
        lease.epoch,
        lease.worker,
        lease.claimed.payload,
        job.batch_id,
        None if point is None else point.name or None,
        0 if point is None else point.progress,
        "null" if point is None or not point.name else point.data,
    )


def group_fields(runs: Sequence[Run]) -> dict[str, Any]:
    """The fields of a log line of a call that several runs share: the jobs' own in lists, the others as for one run."""
    each = [run.job.log_fields() for run in runs]
    lists = {"jobs": [one["job"] for one in each], "correlation_ids": [one["correlation_id"] for one in each]}
    return {"job": None, "correlation_id": None, **lists, **{name: each[0][name] for name in _SHARED}}
