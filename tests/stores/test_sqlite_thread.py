"""The thread that a SQLite connection lives on: in order, one at a time, and nobody waits for what never comes."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from ficha.store.sqlite.connection import ConnectionThread


@pytest.fixture
async def thread(tmp_path: Path) -> AsyncIterator[ConnectionThread]:
    path = tmp_path / "a.db"
    path.touch()
    thread = ConnectionThread("a thread", str(path), lambda: apsw.Connection(str(path)))
    yield thread
    await thread.close()


async def test_an_answer_and_an_error_reach_the_caller(thread: ConnectionThread) -> None:
    def broken(db: apsw.Connection) -> None:
        raise LookupError("no")

    assert await thread.call(lambda db: threading.current_thread().name) == "a thread"
    with pytest.raises(LookupError, match="no"):
        await thread.call(broken)
    assert await thread.call(lambda db: 1) == 1


async def test_what_nobody_waits_for_is_done_in_its_turn_and_its_error_dropped(thread: ConnectionThread) -> None:
    done: list[str] = []

    def broken(db: apsw.Connection) -> None:
        done.append("posted")
        raise LookupError("no")

    thread.post(broken)
    await thread.call(lambda db: done.append("called"))
    assert done == ["posted", "called"]


async def test_work_whose_caller_has_left_before_its_turn_is_not_done(thread: ConnectionThread) -> None:
    inside, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def slow(db: apsw.Connection) -> None:
        inside.set()
        assert go_on.wait(10)
        done.append("first")

    first = asyncio.create_task(thread.call(slow))
    await asyncio.to_thread(inside.wait, 10)
    second = asyncio.create_task(thread.call(lambda db: done.append("second")))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    go_on.set()
    await thread.call(lambda db: done.append("third"))
    assert done == ["first", "third"]


def test_a_process_that_never_closes_its_store_still_ends(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from ficha.store.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.migrate()
    await store.open()
    print("open")

asyncio.run(main())
"""
    command = [sys.executable, "-c", program, str(tmp_path / "ficha.db")]
    assert subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout == "open\n"
