"""`ficha workers`: lists workers and how their runs ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..engine.views import WorkerView
from .listing import list_on_backend
from .options import LIMIT, After, App, AsJson, Database, Limit

COLUMNS: Final[dict[str, Callable[[WorkerView], Any]]] = {
    "WORKER": lambda worker: worker.name,
    "STATE": lambda worker: worker.state,
    "SEEN": lambda worker: worker.seen_at,
    "RUNNING": lambda worker: worker.running,
    "STUCK": lambda worker: worker.stuck,
    "CLAIMED": lambda worker: worker.claimed,
    "COMPLETED": lambda worker: worker.completed,
    "FAILED": lambda worker: worker.failed,
    "RETRIED": lambda worker: worker.retried,
    "RECOVERED": lambda worker: worker.recovered,
    "AVERAGE": lambda worker: None if worker.average_duration_s is None else f"{worker.average_duration_s:.3f} s",
    "PROBLEM": lambda worker: worker.problem,
}


def workers(
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List all workers, alive or gone, by name: how their runs ended, and what they hold now."""
    list_on_backend(
        app,
        database,
        lambda backend, cursor, most: backend.workers(after=cursor, limit=most),
        COLUMNS,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing="no workers yet",
        needs="settings",
    )
