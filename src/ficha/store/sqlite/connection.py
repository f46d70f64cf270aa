"""Opens connections to the file; each connection has a thread of its own.

A connection is used on its own thread only, and is closed while the process forks.
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
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakSet

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
        """Waits for up to this many seconds instead, inside the block."""
        usual, self.seconds = self.seconds, seconds
        try:
            yield
        finally:
            self.seconds = usual


def connect(path: str, patience: Patience, *, read_only: bool = False) -> apsw.Connection:
    """A connection with all its settings. A read-only one does not checkpoint the WAL when it is closed."""
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=256)
    try:
        db.set_busy_handler(patience)
        db.wal_autocheckpoint(0)
        # Otherwise SQLite plans a statement with a LIMIT each time it runs, which takes longer than the run itself.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        db.pragma("synchronous", "FULL")
        db.pragma("mmap_size", 0)
        db.pragma("temp_store", "MEMORY")
        db.pragma("cache_size", -_CACHE_KIB)
        db.pragma("trusted_schema", False)
        # Without it, a REPLACE could delete a ledger entry and no trigger would run.
        db.pragma("recursive_triggers", True)
        if read_only:
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            db.pragma("query_only", True)
        else:
            if db.readonly("main"):
                raise apsw.ReadOnlyError("the system lets this user only read it")
            _use_wal(db, path, patience)
            db.pragma("journal_size_limit", _JOURNAL_BYTES)
            # Deleted content is overwritten, so that what is erased is in no free page.
            db.pragma("secure_delete", True)
    except BaseException:
        db.close(True)
        raise
    return db


def _use_wal(db: apsw.Connection, path: str, patience: Patience) -> None:
    """Turns WAL mode on. SQLite does not always call the busy handler here, so this function does."""
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
    """Work for the thread, and the future that waits for it, if any."""

    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None


class ConnectionThread:
    """One thread with one connection, which is opened when first needed and again after an error that breaks it.

    Each commit group is handed to the thread and back once. With a single caller that is most of the cost, and the
    standard library's thread pool takes half as long again for it.
    """

    def __init__(self, name: str, path: str, connect: Callable[[], apsw.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._db: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._working = threading.Lock()
        _FORKS.know(self)
        # A daemon thread, so that a process that forgets to close the store can end. Nothing uncommitted was answered.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def call(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs `work` on the thread. If the caller is cancelled, the work still runs to its end."""
        result: T = await self._do(partial(self._run, work))
        return result

    def post(self, work: Callable[[apsw.Connection], T]) -> None:
        """Runs `work` after everything queued so far. Nobody waits for it, and its exceptions are dropped."""
        self._tasks.put(_Task(partial(self._run, work)))

    def renew(self, everybody: threading.Barrier, wait_s: float) -> None:
        """Closes the connection, after everything queued so far. The thread then waits at the barrier, for `wait_s` at
        most, before it opens another."""
        self._tasks.put(_Task(partial(self._renew, everybody, wait_s)))

    async def close(self, farewell: Callable[[apsw.Connection], None] | None = None) -> None:
        """Closes the connection, after everything queued so far, and ends the thread."""
        await self._do(partial(self._close, farewell))
        self._tasks.put(None)
        self._thread.join()

    def stand_still(self) -> None:
        """Waits for the task under way and closes the connection. No task begins before `go_on`."""
        self._working.acquire()
        self._drop()

    def go_on(self) -> None:
        self._working.release()

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
                    with self._working:
                        result = task.work()
                except BaseException as raised:
                    error = raised
            if task.loop is not None and task.future is not None:
                # If the loop has ended, nobody waits for the answer.
                with suppress(RuntimeError):
                    task.loop.call_soon_threadsafe(_settle, task.future, result, error)
            del task, result, error  # Otherwise they stay alive until the next task.

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
            # Writes to a deleted file are lost when the process ends.
            self._drop()
            raise Unavailable(
                f"{self._path} was moved, deleted or replaced while in use; nothing was written. Put the file back "
                "with its -wal file; the next call opens the file that it finds there"
            )
        if file is None:
            raise Unavailable(f"{self._path} is gone: put the file back; Ficha does not create it again while it runs")
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
        """Closes the connection without a checkpoint: the files may belong to another database by now."""
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
        # Pages that could not be checkpointed are safe in the WAL, so a failure here raises nothing.
        try:
            if farewell is not None:
                farewell(self._db)
        except apsw.Error:
            # The next connection to the file checkpoints the whole WAL.
            self._drop()
            return
        db, self._db = self._db, None
        with suppress(apsw.Error):
            db.close(True)


class _Forks:
    """Closes every connection of the process before it forks.

    SQLite keeps in memory which locks the process holds. A child inherits that memory, but not the locks: it would wait
    for ever for a transaction of its parent, or lose its commits when the parent deletes the WAL.
    """

    def __init__(self) -> None:
        self._forking = threading.Lock()
        self._threads: WeakSet[ConnectionThread] = WeakSet()
        self._still: list[ConnectionThread] = []

    def know(self, thread: ConnectionThread) -> None:
        with self._forking:
            self._threads.add(thread)

    def before(self) -> None:
        self._forking.acquire()
        for thread in list(self._threads):
            thread.stand_still()
            self._still.append(thread)

    def after_in_parent(self) -> None:
        while self._still:
            self._still.pop().go_on()
        self._forking.release()

    def after_in_child(self) -> None:
        # The threads are the parent's; none of them runs here.
        self._threads.clear()
        self._still.clear()
        self._forking.release()


_FORKS: Final = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_FORKS.before, after_in_parent=_FORKS.after_in_parent, after_in_child=_FORKS.after_in_child
    )


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if error is None:
        settle(future, result)
    else:
        fail(future, error)
