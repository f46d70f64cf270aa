"""Faults around an SQLite file: a disk that fails or is full, and a reader who does not go away."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from tests.chaos.faults import Fault
from tests.chaos.space import FileSizes, Space
from tests.chaos.supervisor import Load


async def fail_operations(load: Load, seconds: float) -> int:
    """Every so many writes, truncations and flushes one fails, in every process. The load needs `Habits(disk=True)`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        load.board.fails_every = load.choice.choice((2, 10, 50, 200))
        await asyncio.sleep(0.2)
    load.board.fails_every = 0
    return load.disk_faults


async def fill_the_disk(load: Load, seconds: float) -> int:
    """No write finds space for a while, then there is space again. The load needs `Habits(disk=True)`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        load.board.is_disk_full = True
        await asyncio.sleep(0.6)
        load.board.is_disk_full = False
        await asyncio.sleep(0.3)
    return load.disk_faults


def run_out_of(space: Callable[[Load], Space]) -> Fault:
    """The system refuses to write until everything stands still; who is started then cannot write either.

    Then there is space again, and work goes on.
    """

    async def fault(load: Load, seconds: float) -> int:
        until, struck = time.monotonic() + seconds, 0
        while struck == 0 or time.monotonic() < until:
            taken = space(load)
            taken.fill()
            try:
                assert await load.stands_still(20.0), "there was space after all"
                for actor in (load.submitters[0], load.workers[0]):
                    actor.send(signal.SIGKILL)
                await asyncio.sleep(0.5)
            finally:
                taken.free()
            struck += 1
            await load.progress(5, 15.0)
        return struck

    return fault


def files_as_they_are(load: Load) -> Space:
    """No file may be longer than the journal is now; what the processes write down for the oracle stays below that."""
    records = max(path.stat().st_size for path in (*load.folder.glob("*.record"), *load.folder.glob("*.log")))
    assert records < journal_bytes(load), "the load has to run for a while before"
    return FileSizes([actor.pid for actor in load.actors if actor.pid is not None], journal_bytes(load))


async def hold_a_reader(load: Load, seconds: float) -> int:
    """A view of the database kept open all the time: what it still needs of the journal cannot be taken away."""
    db = apsw.Connection(path_of(load))
    try:
        db.execute("BEGIN")
        before = db.execute("SELECT count(*) FROM jobs").get
        await asyncio.sleep(seconds)
        assert db.execute("SELECT count(*) FROM jobs").get == before, "the reader's view moved"
        return 1
    finally:
        db.close(True)


def path_of(load: Load) -> str:
    return load.direct.removeprefix("sqlite:///")


def journal_bytes(load: Load) -> int:
    journal = Path(f"{path_of(load)}-wal")
    return journal.stat().st_size if journal.exists() else 0
