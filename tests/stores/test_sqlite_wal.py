"""The journal of an SQLite file: it is moved to the database beside the writer, stays short, and loses nothing."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from ficha.core import commands as c
from ficha.core.outcomes import Claimed
from ficha.store import base as q
from ficha.store.sqlite import load
from ficha.store.sqlite import wal as wal_module
from tests.chaos.disk import FaultyDisk, VolatileDisk
from tests.stores.sqlite_setup import (
    StoreSetup,
    a_submit,
    exists,
    is_intact,
    job_id,
    journal,
    moved,
    on_writer,
    opened,
    start_writer,
    statements,
)
from tests.support.new_jobs import new_job

WRITER = Path(__file__).with_name("sqlite_writer.py")
PAGE = 4096


def short(monkeypatch: pytest.MonkeyPatch, pages: int = 10, long: int = 30, crowded: int = 1_000) -> None:
    monkeypatch.setattr(wal_module, "CHECKPOINT_PAGES", pages)
    monkeypatch.setattr(wal_module, "LONG_PAGES", long)
    monkeypatch.setattr(wal_module, "CROWDED_PAGES", crowded)


async def grant(setup: StoreSetup) -> None:
    """A commit group of several pages."""
    await setup.run(*[c.Credit("ana", 1, "grant") for _ in range(50)])


async def move(setup: StoreSetup) -> tuple[int, int]:
    return await setup.store._journal._mover.call(setup.store._journal._move)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Somebody else looks at the database as it is now, and goes on looking."""
    db = apsw.Connection(path)
    db.execute("BEGIN")
    db.execute("SELECT * FROM accounts").fetchall()
    try:
        yield
    finally:
        db.close(True)


# Its length


async def test_it_is_emptied_when_nothing_happens(
    setup: StoreSetup, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert journal(path).st_size > 0
    monkeypatch.setattr(wal_module, "IDLE_S", 0.0)
    await setup.run(c.Credit("ana", 1, "grant"))
    await moved(setup)  # by now the event loop has seen that time is up
    await moved(setup)
    assert journal(path).st_size == 0
    assert await setup.balance() == 101


async def test_it_stays_short_while_much_is_written(
    setup: StoreSetup, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short(monkeypatch)
    for _ in range(100):
        await grant(setup)
        await moved(setup)
    assert journal(path).st_size < 60 * PAGE
    await setup.store.close()
    assert not exists(path + "-wal")
    assert is_intact(path)


async def test_it_is_moved_but_not_started_over_while_a_reader_needs_it(
    setup: StoreSetup, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short(monkeypatch)
    with reading(path):
        while journal(path).st_size < 60 * PAGE:
            await grant(setup)
        pages, done = await move(setup)
        assert done < 30 < pages
    for _ in range(10):
        await grant(setup)
        await moved(setup)
    assert setup.store._journal.pages < 60


async def test_nobody_waits_for_a_reader_who_stays(
    setup: StoreSetup, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short(monkeypatch, crowded=50)
    monkeypatch.setattr(wal_module, "LONG_WAIT_S", 60.0)
    monkeypatch.setattr(wal_module, "CROWDED_WAIT_S", 60.0)
    with reading(path):
        async with asyncio.timeout(30):
            while journal(path).st_size < 100 * PAGE:
                await grant(setup)
                if setup.store._journal.pages > 20:
                    await moved(setup)


async def test_it_is_emptied_when_readers_made_it_very_long_and_are_gone(
    setup: StoreSetup, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short(monkeypatch, crowded=50)
    monkeypatch.setattr(wal_module, "CROWDED_WAIT_S", 0.0)
    with reading(path):
        while journal(path).st_size < 100 * PAGE:
            await grant(setup)
            await moved(setup)
    for _ in range(10):
        await grant(setup)
        await moved(setup)
    assert journal(path).st_size < 60 * PAGE


# Beside the writer


class WatchedFile(apsw.VFSFile):
    def __init__(self, disk: "WatchedDisk", name: Any, flags: Any) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        self._is_database = bool(flags[0] & apsw.SQLITE_OPEN_MAIN_DB)

    def xSync(self, flags: int) -> None:
        if self._is_database:
            self._disk.flushes()
        super().xSync(flags)


class WatchedDisk(apsw.VFS):
    """SQLite's way to the disk; `flushes` is called before each flush of a database, but not of a journal."""

    def __init__(self) -> None:
        super().__init__("watched", "unix", makedefault=True)
        self.flushes: Callable[[], None] = lambda: None

    def xOpen(self, name: Any, flags: Any) -> WatchedFile:
        return WatchedFile(self, name, flags)


@pytest.fixture
def disk() -> Iterator[WatchedDisk]:
    disk = WatchedDisk()
    yield disk
    disk.unregister()


async def test_nobody_waits_while_it_is_moved(
    disk: WatchedDisk, setup: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        inside.set()
        assert go_on.wait(10)

    short(monkeypatch)
    disk.flushes = stand_still
    try:
        while setup.store._journal.pages < 20:
            await grant(setup)
        assert await asyncio.to_thread(inside.wait, 10)
        for _ in range(20):
            await grant(setup)
        assert await setup.balance() > 1_000
        assert not go_on.is_set()
    finally:
        go_on.set()


async def test_a_pass_that_is_overtaken_by_commits_is_flushed_all_the_same(
    disk: WatchedDisk, setup: StoreSetup, path: str
) -> None:
    flushes: list[str] = []
    disk.flushes = lambda: flushes.append(threading.current_thread().name)
    await grant(setup)
    with reading(path):
        await grant(setup)
        pages, done = await move(setup)
    assert 0 < done < pages
    assert flushes == ["ficha-sqlite-journal"]


async def test_what_was_committed_meanwhile_is_left_to_the_writer_who_starts_it_over(
    setup: StoreSetup, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, of = threading.Event(), setup.store._journal
    while of.pages < 30:
        await grant(setup)
    short(monkeypatch, pages=1_000, long=30)
    with reading(path):
        await grant(setup)
        # The writer has its hands full until the pass is over and the reader is gone.
        busy = asyncio.create_task(on_writer(setup.store, lambda db: go_on.wait(10)))
        await of._mover.call(of._shorten)
    assert of.pages > 30
    go_on.set()
    assert await busy
    await grant(setup)
    assert of.pages < 30
    assert await setup.balance() > 100


async def test_its_thread_ends_with_the_store(setup: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    short(monkeypatch)
    for _ in range(10):
        await grant(setup)
    assert setup.store._journal._mover._thread.is_alive()
    await setup.store.close()
    assert not setup.store._journal._mover._thread.is_alive()
    await setup.store.open()
    await grant(setup)
    await moved(setup)
    assert await setup.balance() == 650


async def test_processes_that_move_it_at_once_lose_nothing(setup: StoreSetup, path: str) -> None:
    writers = [start_writer(path, 300, f"p{number}", 5 + number) for number in range(3)]
    said = [await asyncio.to_thread(writer.communicate) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert [len(lines.split()) for lines, _ in said] == [300, 300, 300]
    assert await setup.balance() == 1_000
    assert is_intact(path)


# What goes by it


async def lease(setup: StoreSetup) -> c.Finish:
    _, claimed = await setup.run(a_submit(1), c.Claim("w1", ("gpu",), 1))
    assert isinstance(claimed, Claimed)
    return c.Finish(job_id(1), c.Completed("{}"), claimed.leases[0].epoch)


async def test_what_the_writer_knows_by_heart_survives_it(
    setup: StoreSetup, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short(monkeypatch, pages=1, long=1)
    async with opened(path) as other:
        finish = await lease(setup)
        seen = await statements(setup)
        await moved(setup)
        assert setup.store._journal.pages > 0
        # The journal is started over, and moved by another process.
        await setup.run(c.Credit("ana", 1, "grant"))
        assert setup.store._journal.pages < 10
        await moved(setup)
        await move(other)
        await on_writer(setup.store, setup.store._journal.empty)
        assert journal(path).st_size == 0
        await setup.run(finish)
    assert seen
    assert not {load.JOBS, load.ACCOUNTS} & set(seen)


async def test_what_another_process_wrote_is_seen_after_it_as_well(setup: StoreSetup, path: str) -> None:
    async with opened(path) as other:
        finish = await lease(setup)
        await other.run(c.CancelJob(job_id(1)))
        await move(setup)
        await move(other)
        await on_writer(other.store, other.store._journal.empty)
        assert journal(path).st_size == 0
        (late,) = await setup.run(finish)
        assert (late.status, late.changed) == ("cancelled", False)


async def test_a_worker_that_found_nothing_asks_nothing_more_because_of_it(setup: StoreSetup) -> None:
    for _ in range(3):
        assert await setup.run(c.Claim("w1", ("gpu",), 1)) == [Claimed(())]
    before = await statements(setup)
    await move(setup)
    assert await setup.run(c.Claim("w1", ("gpu",), 1)) == [Claimed(())]
    assert before == []


# A disk that fails


async def tried(setup: StoreSetup) -> None:
    """A pass as it comes by itself, with all that follows from it."""
    store, of = setup.store, setup.store._journal
    of._mover.post(partial(of._try, of._shorten))
    await moved(setup)
    await store.read(q.GetAccount("ana"))


async def test_a_full_disk_is_told_and_what_was_committed_stays_in_it(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    full = False
    disk = FaultyDisk(lambda doing: "full" if full and doing == "write" else None)
    try:
        async with opened(path) as setup:
            await grant(setup)
            full = True
            with caplog.at_level(logging.WARNING, logger="ficha.store"):
                await tried(setup)
            full = False
            assert "could not be checkpointed. What was committed is safe in it" in caplog.text
            assert "no space left" in caplog.text
            pages, done = await move(setup)
            assert done == pages
            assert await setup.balance() == 150
    finally:
        disk.unregister()
    assert is_intact(path)


@pytest.fixture
def volatile(tmp_path: Path) -> Iterator[VolatileDisk]:
    disk = VolatileDisk(tmp_path)
    yield disk
    disk.unregister()


async def move_half(setup: StoreSetup, path: str) -> None:
    """What a pass has moved that was overtaken by commits: SQLite believes it done, and no flush has been tried."""
    jobs = [new_job(job_id(number), "upscale", "gpu", f'"{"x" * PAGE}"', cost=2) for number in range(1, 41)]
    await setup.run(*(c.Submit("ana", (job,), fingerprint="f") for job in jobs))
    with reading(path):
        await grant(setup)
        passive = apsw.SQLITE_CHECKPOINT_PASSIVE
        pages, done = await setup.store._journal._mover.call(lambda db: db.wal_checkpoint(mode=passive))
        assert 0 < done < pages


def on_the_disk(disk: VolatileDisk, folder: Path) -> tuple[str, int, int]:
    """What is left without the journal: what SQLite says to it, how many jobs, and the balance."""
    left = folder / "left.db"
    left.write_bytes(disk.flushed["ficha.db"])
    db = apsw.Connection(str(left), vfs="unix")
    try:
        return db.execute("PRAGMA integrity_check").get, *db.execute(
            "SELECT (SELECT count(payload) FROM jobs), balance FROM accounts"
        ).get
    finally:
        db.close()


async def test_what_a_failed_flush_gave_up_is_moved_again(
    volatile: VolatileDisk, path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(path) as setup:
        await move_half(setup, path)
        volatile.broken = "ficha.db"
        await tried(setup)
        assert volatile.broken == ""
        assert "the disk failed" in caplog.text
        await grant(setup)
        await tried(setup)
        await on_writer(setup.store, setup.store._journal.empty)
        assert journal(path).st_size == 0
        assert on_the_disk(volatile, tmp_path) == ("ok", 40, 120)


async def test_what_a_failed_flush_gave_up_at_the_end_is_moved_by_the_next_who_comes(
    volatile: VolatileDisk, path: str, tmp_path: Path
) -> None:
    async with opened(path) as setup:
        await move_half(setup, path)
        volatile.broken = "ficha.db"
    assert volatile.broken == ""
    assert exists(path + "-wal")
    async with opened(path) as setup:
        assert await setup.balance() == 70
    assert not exists(path + "-wal")
    assert on_the_disk(volatile, tmp_path) == ("ok", 40, 70)
