"""Who works here, by their own word, and whether they are still there."""

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
"""Heartbeats that a worker may miss before it is called silent."""


def register_worker(ws: Workspace, command: RegisterWorker) -> Seen:
    """A worker's word about itself, which stands for whatever it said before."""
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
    )
    ws.put_worker(worker)
    return Seen(worker)


def state_of(worker: Worker, now: int) -> WorkerState:
    if worker.stopped_at is not None:
        return "stopped"
    return "silent" if now - worker.seen_at > MISSED * worker.heartbeat_ms * MILLISECOND else "alive"


def _needs_nothing(_: Needs, __: RegisterWorker) -> None:
    """A sign of life stands, whatever was said before."""


RULES = (Rule(RegisterWorker, decide=register_worker, needs=_needs_nothing, locks_account=False),)
