"""huey on SQLite, as durable as Ficha is there: WAL, and a flush at each commit. Its calls block, so its callers are
threads. A job there has no price, no key and no account, and is gone once a worker has it."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, Final

from huey import SqliteHuey
from huey.consumer import Consumer

from .peer import ONLY_BY_WORKER, SUBMITS_ONE_BY_ONE, Knob, Peer, Tally, Wrong
from .workload import Numbers, payload

FULL: Final = 2
POLL_S: Final = 0.001
POLL_MAX_S: Final = 0.01


class _Consumer(Consumer):
    def _set_signal_handlers(self) -> None:
        """The process has its own."""


class HueySide(Peer):
    name = "huey"
    package = "huey"
    does = f"a row while it waits, in Python's own SQLite {sqlite3.sqlite_version}"
    lacks: ClassVar = {"bulk": SUBMITS_ONE_BY_ONE, "claim_finish": ONLY_BY_WORKER}
    share = 0.25
    knob = Knob("worker threads", (1, 2, 4, 8))
    setting = 1

    async def open(self, url: str) -> None:
        logging.getLogger("huey").setLevel(logging.ERROR)
        self._path = url.removeprefix("sqlite:///")
        self._ran = 0
        self._huey = SqliteHuey("images", filename=self._path, fsync=True)
        kept = self._huey.storage.conn.execute("PRAGMA journal_mode").fetchone()
        flushed = self._huey.storage.conn.execute("PRAGMA synchronous").fetchone()
        assert (*kept, *flushed) == ("wal", FULL)

        @self._huey.task()
        def upscale(image: str, scale: int) -> None:
            self.began()
            self._tally.add(1)

        self._task = upscale

    async def close(self) -> None:
        self._huey.storage.close()

    def _submit(self, number: int) -> None:
        self._task(**payload(number))

    async def submit(self, number: int) -> None:
        self._submit(number)

    async def submit_many(self, numbers: Sequence[int]) -> None:
        """One by one: it has no other way."""
        await asyncio.to_thread(lambda: [self._submit(number) for number in numbers])

    async def call(self, callers: int, seconds: float, numbers: Numbers) -> list[float]:
        waits: list[float] = []
        ends_at = time.monotonic() + seconds

        def caller() -> None:
            while (asked_at := time.monotonic()) < ends_at:
                self._submit(numbers.next())
                waits.append(time.monotonic() - asked_at)

        threads = [threading.Thread(target=caller) for _ in range(callers)]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(lambda: [thread.join() for thread in threads])
        return waits

    @asynccontextmanager
    async def working(self, tally: Tally) -> AsyncIterator[None]:
        self._tally = tally
        before = tally.count
        consumer = _Consumer(
            self._huey, workers=self.setting, periodic=False, initial_delay=POLL_S, max_delay=POLL_MAX_S
        )
        consumer.start()
        try:
            yield
        finally:
            # A worker writes something after its handler, too; it stops only when that is done.
            await asyncio.to_thread(consumer.stop, graceful=True)
            tally.add(0)
            self._ran += tally.count - before

    async def check(self, submitted: int, finished: int) -> None:
        """What another connection sees is in the file, and not only in huey's cache."""
        connection = sqlite3.connect(self._path)
        waiting = connection.execute("SELECT count(*) FROM task").fetchone()[0]
        connection.close()
        ran = self._ran + self.ended_apart
        if (waiting, ran) != (submitted - finished, finished):
            raise Wrong(f"of {submitted} jobs {finished} were finished, but {waiting} wait and {ran} were run")
