"""`ficha top`: a live view of pools, workers, throughput, waits and alerts, of a database or a server."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Final

import msgspec
import typer

from ..engine.views import WorkerView
from ..store.base import StoreError
from .backend import Backend, on_backend, page_items
from .options import App, AsJson, Database
from .output import data
from .top_figures import TopFigures, frame, top_figures

WORKERS_S: Final = 10.0
"""How often the list of workers, which includes those that are gone, is read; with each frame while none is alive."""
WORKER_PAGES: Final = 10
"""How many pages of that list are read, at most."""


def top(
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit, as in a pipe.")] = False,
    every: Annotated[float, typer.Option("--every", min=1.0, max=3_600.0, help="Seconds between frames.")] = 2.0,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Watch pools, workers, throughput, waits and alerts. `q` or Ctrl-C leaves. Works on a database, and over HTTP with
    an admin or viewer key."""

    async def work(backend: Backend) -> None:
        reading = TopReader(backend)
        figures = await reading.figures()
        if as_json:
            data(msgspec.to_builtins(figures))
        elif once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            from rich.console import Console

            Console(highlight=False).print(frame(figures))
        else:
            await _watch(reading, figures, every)

    on_backend(app, database, work, needs="settings")


class TopReader:
    """Reads the figures: the overview each time, the workers now and then."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._workers: list[WorkerView] = []
        self._workers_at = float("-inf")

    async def figures(self) -> TopFigures:
        is_served = any(worker.state == "alive" for worker in self._workers)
        if not is_served or time.monotonic() - self._workers_at >= WORKERS_S:
            self._workers = await self._read_workers()
            self._workers_at = time.monotonic()
        return top_figures(await self._backend.overview("1h"), self._workers)

    async def _read_workers(self) -> list[WorkerView]:
        found: list[WorkerView] = []
        after: str | None = None
        for _ in range(WORKER_PAGES):
            page = await self._backend.workers(after=after, limit=min(page_items(self._backend), 1_000))
            found += [worker for worker in page.items if worker.state in ("alive", "silent")]
            if (after := page.next) is None:
                break
        return found


async def _watch(reading: TopReader, figures: TopFigures, every_s: float) -> None:
    """Shows frames until the user leaves, and then restores the terminal."""
    from rich.console import Console
    from rich.live import Live

    left = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, left.set)
    with _keys(left), Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:
        note = ""
        while True:
            live.update(frame(figures, note), refresh=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await left.wait()
            if left.is_set():
                return
            try:
                figures, note = await reading.figures(), ""
            except Exception as error:
                if not _comes_back(error):
                    raise
                note = f"{error}; trying again"


def _comes_back(error: Exception) -> bool:
    """Whether the error may pass: the database or the server is away."""
    from ..client import ServerError

    return isinstance(error, StoreError | ServerError)


@contextmanager
def _keys(left: asyncio.Event) -> Iterator[None]:
    """Reads single keys, unseen, until the block ends. Ctrl-Z is off, as it would leave the terminal in this mode."""
    import os
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def pressed() -> None:
        if b"q" in os.read(keyboard, 64).lower():
            left.set()

    loop = asyncio.get_running_loop()
    try:
        tty.setcbreak(keyboard)
        now = termios.tcgetattr(keyboard)
        now[6][termios.VSUSP] = b"\x00"
        termios.tcsetattr(keyboard, termios.TCSANOW, now)
        loop.add_reader(keyboard, pressed)
        yield
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
