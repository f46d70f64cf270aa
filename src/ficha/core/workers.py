"""Registrations of workers, and whether a worker is still alive."""

from __future__ import annotations

from typing import Final, Literal

from .commands import RegisterWorker
from .outcomes import Seen
from .policy import MILLISECOND
from .records import Worker
from .rule import Needs, Rule
from .workspace import Workspace

WorkerState = Literal["alive", "silent", "stopped"]

MISSED: Final = 3
"""Heartbeats that a worker may miss before it counts as silent."""


def register_worker(ws: Workspace, command: RegisterWorker) -> Seen:
    """Writes a worker's registration, which replaces its earlier one."""
    worker = Worker(
        command.name,
        command.host,
        command.pid,
        command.pools,
        command.concurrency,
        command.version,
        command.heartbeat_ms,
        started_at=ws.now if command.started_at is None else command.started_at,
        seen_at=ws.now,
        stopped_at=ws.now if command.stops else None,
        problem=command.problem,
    )
    ws.put_worker(worker)
    return Seen(worker)


def state_of(worker: Worker, now: int) -> WorkerState:
    if worker.stopped_at is not None:
        return "stopped"
    return "silent" if now - worker.seen_at > MISSED * worker.heartbeat_ms * MILLISECOND else "alive"


def _needs_nothing(_: Needs, __: RegisterWorker) -> None:
    """The new registration replaces the old one, so nothing is loaded."""


RULES = (Rule(RegisterWorker, decide=register_worker, needs=_needs_nothing, locks_account=False),)
