"""Faults around an SQLite file: a disk that fails or is full, and a reader who does not go away."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import apsw

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
