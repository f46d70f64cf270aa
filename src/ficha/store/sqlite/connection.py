"""How a connection to the file is opened, and the thread that it lives on.

A connection is used on its one thread only. A store must be opened after a fork, never before: SQLite's locks belong
to the process that took them.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import apsw

from ...backoff import pause_s
from ...futures import fail, settle
from ..base import CommitUnknown, StoreError, Unavailable
from .errors import BREAKS_CONNECTION, translate

T = TypeVar("T")

OLDEST_SQLITE = (3, 51, 3)
_JOURNAL_BYTES = 64 * 1024 * 1024
_CACHE_KIB = 32 * 1024


def refuse_old_library(version: str | None = None) -> None:
    """Raises StoreError where SQLite could corrupt a database that has more than one connection."""
    version = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(
            f"SQLite {version} can corrupt a database in WAL mode; Ficha needs {needed} or newer: "
            f"install apsw {needed} or newer from its wheel"
        )


class Patience:
    """SQLite's busy handler: waits for a lock in short, uneven steps, for up to `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._until = now + self.seconds
        if now >= self._until:
            return False
        step = pause_s(tries + 1, 0.001, 0.016)
        time.sleep(min(step, self._until - now))
        return True

    @contextmanager
    def of(self, seconds: float) -> Iterator[None]:
        """Another patience for a while."""
        usual, self.seconds = self.seconds, seconds
        try:
            yield
        finally:
            self.seconds = usual


def connect(path: str, patience: Patience, *, create: bool = False, read_only: bool = False) -> apsw.Connection:
    """A connection with every setting that it needs; one that only reads leaves the journal as it is at its end."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    db = apsw.Connection(path, flags=flags, statementcachesize=256)
    try:
        db.set_busy_handler(patience)
        db.wal_autocheckpoint(0)
        # Otherwise a statement with a LIMIT is planned anew, which takes longer than to run it, each time it is run.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        db.pragma("synchronous", "FULL")
        db.pragma("mmap_size", 0)
        db.pragma("temp_store", "MEMORY")
        db.pragma("cache_size", -_CACHE_KIB)
        db.pragma("trusted_schema", False)
        # Without it, a REPLACE would delete a ledger line and no trigger would run.
        db.pragma("recursive_triggers", True)
        if read_only:
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            db.pragma("query_only", True)
        else:
            if db.readonly("main"):
                raise apsw.ReadOnlyError("the system lets this user only read it")
            _use_wal(db, path, patience)
            db.pragma("journal_size_limit", _JOURNAL_BYTES)
    except BaseException:
        db.close(True)
        raise
    return db


def _use_wal(db: apsw.Connection, path: str, patience: Patience) -> None:
    """Turns WAL mode on. SQLite does not always ask the busy handler for this one, so it is asked here."""
    tries = 0
    while True:
        try:
            mode = db.pragma("journal_mode", "WAL")
        except apsw.BusyError:
            if not patience(tries):
                raise
            tries += 1
            continue
        if mode != "wal":
            raise StoreError(f"{path} cannot be used in WAL mode: put it on an ordinary local file system")
        return


class _Task(NamedTuple):
    """Work for the thread, and who waits for it, if anybody."""

    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None


class ConnectionThread:
    """One thread with one connection on it: opened when first needed, and anew after an error that breaks it.

    Each batch is handed over and back once, and where there is one caller that is all there is to a batch: a thread of
    the standard library's pool takes half as long again for it.
    """

    def __init__(self, name: str, path: str, connect: Callable[[], apsw.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._db: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        # Whoever forgets to close the store can end all the same; what was not committed then was not answered either.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def call(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs `work` on the thread. A caller that is cancelled leaves it running to its end."""
        result: T = await self._do(partial(self._run, work))
        return result

    def post(self, work: Callable[[apsw.Connection], T]) -> None:
        """Runs `work` after everything asked for so far; nobody waits for it, and what it raises is dropped."""
        self._tasks.put(_Task(partial(self._run, work)))

    def renew(self, everybody: threading.Barrier, wait_s: float) -> None:
        """Closes the connection in its turn; another is opened once everybody has come as far, or did not in time."""
        self._tasks.put(_Task(partial(self._renew, everybody, wait_s)))

    async def close(self, farewell: Callable[[apsw.Connection], None] | None = None) -> None:
        """Ends the connection, after everything asked for so far, and the thread."""
        await self._do(partial(self._close, farewell))
        self._tasks.put(None)
        self._thread.join()

    async def _do(self, work: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._tasks.put(_Task(work, loop, future))
        return await future

    # On the thread

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            result, error = None, None
            if task.future is None or not task.future.cancelled():
                try:
                    result = task.work()
                except BaseException as raised:
                    error = raised
            if task.loop is not None and task.future is not None:
                # A loop that has ended has nobody left to answer.
                with suppress(RuntimeError):
                    task.loop.call_soon_threadsafe(_settle, task.future, result, error)
            # Nothing is kept alive until the next task comes.
            del task, result, error

    def _run(self, work: Callable[[apsw.Connection], T]) -> T:
        try:
            return work(self._connected())
        except CommitUnknown:
            self._drop()
            raise
        except apsw.Error as error:
            if isinstance(error, BREAKS_CONNECTION):
                self._drop()
            raise translate(error, self._path) from error

    def _connected(self) -> apsw.Connection:
        file = self._file_now()
        if self._db is not None and file == self._file:
            return self._db
        if self._db is not None:
            # What is written to a file that has lost its name is lost with the process.
            self._drop()
            raise Unavailable(
                f"{self._path} was moved, deleted or replaced while in use; nothing was written. Put the file back "
                "with its -wal file; what lies there is opened for the next call"
            )
        if file is None:
            raise Unavailable(f"{self._path} is gone: put the file back; it is not made anew while Ficha runs")
        self._db = self._connect()
        self._file = self._file_now()
        return self._db

    def _file_now(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _drop(self) -> None:
        """Closes the connection and leaves the files as they are: they may be another database's by now."""
        db, self._db = self._db, None
        if db is not None:
            with suppress(apsw.Error):
                db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                db.close(True)

    def _renew(self, everybody: threading.Barrier, wait_s: float) -> None:
        self._drop()
        with suppress(threading.BrokenBarrierError):
            everybody.wait(wait_s)

    def _close(self, farewell: Callable[[apsw.Connection], None] | None) -> None:
        if self._db is None:
            return
        if self._file_now() != self._file:
            self._drop()
            return
        # What could not be moved out of the journal is safe in it, so nothing that fails here is worth an error.
        try:
            if farewell is not None:
                farewell(self._db)
        except apsw.Error:
            # Whoever opens the file next moves all of it.
            self._drop()
            return
        db, self._db = self._db, None
        with suppress(apsw.Error):
            db.close(True)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if error is None:
        settle(future, result)
    else:
        fail(future, error)
