"""A worker, alive or gone, and what became of its runs."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from ...core.policy import SECOND
from ...core.records import TallyKind
from ...core.workers import WorkerState, state_of
from ...store.base import WorkerCounts
from .dates import moment, moment_if_any

_TIMED: Final[frozenset[TallyKind]] = frozenset({"completed", "failed", "cancelled", "retried", "returned", "accepted"})
"""The ways a run ends at a known time; the end of a lost run is not known."""


class WorkerView(Struct, frozen=True, kw_only=True):
    """A worker, alive or gone, and all its runs so far.

    state: `alive`, `silent` (it missed three heartbeats), `stopped`; None for a worker that claims without ever having
        registered, and then `host` to `seen_at` are None too.
    problem: what keeps it from its work, such as a tool that could not be set up.
    claimed: runs that it began. Each is `running` now or has ended in one way: `completed`; `failed` (also by time-out,
        or as poison), `cancelled`, `retried` (it failed with attempts left, or asked for it), `recovered` (it was lost
        with its process, or its lease expired), `returned` (the worker stopped) or `accepted` (a provider has the job).
    stuck: those running whose last heartbeat is older than `stuck_s`.
    average_duration_s: over the runs that have ended, except lost ones.
    """

    name: str
    state: WorkerState | None
    host: str | None
    pid: int | None
    pools: tuple[str, ...] | None
    concurrency: int | None
    version: str | None
    started_at: datetime | None
    seen_at: datetime | None
    stopped_at: datetime | None
    problem: str | None
    running: int
    stuck: int
    claimed: int
    completed: int
    failed: int
    cancelled: int
    retried: int
    recovered: int
    returned: int
    accepted: int
    average_duration_s: float | None


def worker_view(counts: WorkerCounts, now: int) -> WorkerView:
    worker = counts.worker
    runs = {tally.kind: tally.runs for tally in counts.tallies}
    timed = sum(runs.get(kind, 0) for kind in _TIMED)
    busy_us = sum(tally.busy_us for tally in counts.tallies)
    stopped_at = None if worker is None else worker.stopped_at
    return WorkerView(
        name=counts.name,
        state=None if worker is None else state_of(worker, now),
        host=None if worker is None else worker.host,
        pid=None if worker is None else worker.pid,
        pools=None if worker is None else worker.pools,
        concurrency=None if worker is None else worker.concurrency,
        version=None if worker is None else worker.version,
        started_at=None if worker is None else moment(worker.started_at),
        seen_at=None if worker is None else moment(worker.seen_at),
        stopped_at=moment_if_any(stopped_at),
        problem=None if worker is None else worker.problem,
        running=counts.running,
        stuck=counts.stuck,
        claimed=runs.get("claimed", 0),
        completed=runs.get("completed", 0),
        failed=runs.get("failed", 0),
        cancelled=runs.get("cancelled", 0),
        retried=runs.get("retried", 0),
        recovered=runs.get("recovered", 0),
        returned=runs.get("returned", 0),
        accepted=runs.get("accepted", 0),
        average_duration_s=busy_us / timed / SECOND if timed else None,
    )
