"""`ficha watch`: shows a job or a batch until it has ended: a progress bar in a terminal, else a line per change."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Annotated, Final

import typer
from msgspec import structs

from ..core.states import FINAL
from ..engine.views import BatchView, EventView, JobView
from ..errors import NotFound
from ..operations import BoundOperations
from ..store.base import Unavailable
from .backend import Backend, on_backend
from .jobs import standing, waiting
from .options import App, AsJson, Database
from .output import STYLES, credits, data, echo, printable, result, shown

SHORTEST_S: Final = 0.2
LONGEST_S: Final = 2.0
SHARE: Final = 0.05
"""It polls again after a twentieth of the time since the last change: what changes fast is read often."""
UNREACHABLE_S: Final = 30.0
"""How long it waits for an unreachable database."""
FAILED: Final = 1
CANCELLED: Final = 3
"""The exit codes for a failed and a cancelled job."""

Found = JobView | BatchView


def watch(
    found: Annotated[str, typer.Argument(metavar="ID", help="A job or a batch.")],
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Show a job or a batch until it has ended, and print its result."""
    raise typer.Exit(on_backend(app, database, lambda backend: watched(backend, found, as_json=as_json)))


async def watched(backend: Backend, found: str, *, as_json: bool) -> int:
    """Shows progress until the end, then the result; returns the exit code."""
    try:
        with _display() as show:
            last = await _watch_until_end(backend, found, show)
    except asyncio.CancelledError:
        # Only watching ends here. (On Ctrl-C asyncio cancels the command's task, then raises KeyboardInterrupt.)
        echo(f"no longer watching, but it continues. Watch it again: ficha watch {found}")
        raise
    if isinstance(last, BatchView):
        return _batch_ended(last, as_json=as_json)
    return _job_ended(last, as_json=as_json)


async def _watch_until_end(backend: Backend, found: str, show: Callable[[Found], None]) -> Found:
    shown_partial: object = None
    # A server streams a job's events; batches, and jobs in a database, are polled.
    live = not isinstance(backend, BoundOperations) and isinstance(await _read(backend, found), JobView)
    async with aclosing(_followed(backend, found) if live else _polled(backend, found)) as states:
        async for now in states:
            show(now)
            if _has_ended(now):
                return now
            if isinstance(now, JobView) and now.partial != shown_partial:
                shown_partial = now.partial
                echo(f"so far: {shown(shown_partial)}")
    raise AssertionError  # Both generators go on until the end.


async def _polled(backend: Backend, found: str) -> AsyncGenerator[Found]:
    """The job or batch, polled."""
    seen: object = None
    changed_at = answered_at = time.monotonic()
    while True:
        try:
            now = await _read(backend, found)
            answered_at = time.monotonic()
            state = (_state(now), now.partial if isinstance(now, JobView) else None)
            if state != seen:
                seen, changed_at = state, time.monotonic()
            yield now
        except Unavailable:
            if time.monotonic() - answered_at > UNREACHABLE_S:
                raise
        await asyncio.sleep(min(LONGEST_S, max(SHORTEST_S, SHARE * (time.monotonic() - changed_at))))


async def _followed(backend: Backend, job_id: str) -> AsyncGenerator[Found]:
    """A server's job, after each of its events."""
    assert not isinstance(backend, BoundOperations)
    now: JobView | None = None
    async with aclosing(backend.watch(job_id)) as updates:
        async for update in updates:
            if isinstance(update, JobView):
                now = update
            elif now is None or (isinstance(update, EventView) and update.kind == "log"):
                continue  # Events before the first state, and log lines, change nothing.
            elif isinstance(update, EventView):
                now = await backend.job(job_id)
            else:
                now = structs.replace(now, **structs.asdict(update))
            yield now


async def _read(backend: Backend, found: str) -> Found:
    try:
        return await backend.job(found)
    except NotFound as no_job:
        try:
            return await backend.batch(found)
        except NotFound:
            raise no_job from None


def _has_ended(now: Found) -> bool:
    return now.progress == 100 if isinstance(now, BatchView) else now.status in FINAL


def _state(now: Found) -> object:
    """What makes a new line when it changes. The estimate is left out: it changes all the time."""
    if isinstance(now, BatchView):
        return now.by_status
    return now.status, now.position, now.waiting_for, now.checkpoint, now.progress


def _line(now: Found) -> str:
    if isinstance(now, BatchView):
        counts = ", ".join(f"{count} {status}" for status, count in now.by_status.items() if count)
        return f"{now.progress} % of {now.total} jobs ended: {counts}"
    state = standing(now)
    return f"{now.status}: {state}" if state else now.status


def _display() -> AbstractContextManager[Callable[[Found], None]]:
    return _Live() if sys.stderr.isatty() else nullcontext(_Lines().show)


class _Lines:
    """Prints a line for each change, for logs and pipes."""

    def __init__(self) -> None:
        self._seen: object = None

    def show(self, now: Found) -> None:
        if _state(now) != self._seen and not _has_ended(now):
            self._seen = _state(now)
            echo(_line(now))


class _Live(AbstractContextManager[Callable[[Found], None]]):
    """One updating line: the position while it waits, then a progress bar."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        # Without a total, the bar only pulses: until the job starts.
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> Callable[[Found], None]:
        return self._show

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _show(self, now: Found) -> None:
        waits = isinstance(now, JobView) and now.status == "queued"
        self._progress.update(self._task, description=_label(now), completed=now.progress, total=None if waits else 100)
        self._progress.start()


def _label(now: Found) -> str:
    if isinstance(now, BatchView):
        return printable(_line(now))
    return printable(f"queued: {waiting(now)}" if now.status == "queued" else now.checkpoint or now.status)


def _job_ended(job: JobView, *, as_json: bool) -> int:
    if as_json:
        data(job)
    elif job.status == "completed":
        refund = f"; {credits(job.refunded)} refunded" if job.refunded else ""
        echo(f" in {_ran(job)}{refund}", "completed", STYLES["completed"])
        result(job.stored("result"))
    else:
        echo(f": {job.error or 'no reason given'}; {credits(job.refunded)} refunded", job.status, STYLES[job.status])
    return {"completed": 0, "failed": FAILED}.get(job.status, CANCELLED)


def _batch_ended(batch: BatchView, *, as_json: bool) -> int:
    if as_json:
        data(batch)
    else:
        echo(_line(batch))
        echo(f"its jobs: ficha jobs --batch {batch.id}")
    return FAILED if batch.by_status.get("failed") else CANCELLED if batch.by_status.get("cancelled") else 0


def _ran(job: JobView) -> str:
    if job.started_at is None or job.finished_at is None:
        return "no time"
    seconds = (job.finished_at - job.started_at).total_seconds()
    return f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
