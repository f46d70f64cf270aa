"""Keeps the WAL short: a thread of its own checkpoints it while the writer goes on to commit.

A checkpoint writes pages all over the database file and flushes them, which takes as long as dozens of commits. Run
beside the writer, it delays nobody, but it leaves out the pages committed meanwhile and does not flush the file; this
module flushes it. When the WAL is long, the writer copies those few last pages; its next commit restarts the WAL.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import apsw

from .connection import ConnectionThread, Patience
from .errors import BREAKS_CONNECTION, translate
from .flush import flush

CHECKPOINT_PAGES = 6_000
"""New pages in the WAL after which a checkpoint copies them to the database file."""
LONG_PAGES = 12_000
"""Pages in the WAL from which it is restarted."""
LONG_WAIT_S = 0.02
"""How long a restart waits for another process that writes, or that reads old pages."""
CROWDED_PAGES = 40_000
"""Pages from which the writer waits longer for readers, so that the WAL stops growing."""
CROWDED_WAIT_S = 0.25
"""How long it waits then."""
IDLE_S = 5.0
"""Time without commits after which the WAL is emptied."""
RENEWED_S: Final = 5.0
"""How long connections wait for each other to be closed."""

log = logging.getLogger("ficha.store")


class Journal:
    """The WAL of one open store, with a thread that sleeps until there is something to checkpoint."""

    def __init__(self, path: str, patience: Patience) -> None:
        self.pages = 0
        """Pages in the WAL after the writer's last commit."""
        self._path = path
        self._patience = patience
        self._threads: tuple[ConnectionThread, ...] = ()
        self._renewing = threading.Lock()
        self._pages_seen_to = 0
        self._idle: asyncio.TimerHandle | None = None

    # On the event loop

    def open(self, writer: ConnectionThread, reader: ConnectionThread, connect: Callable[[], apsw.Connection]) -> None:
        self._writer = writer
        self._mover = ConnectionThread("ficha-sqlite-journal", self._path, connect)
        self._threads = (writer, reader, self._mover)

    async def close(self) -> None:
        """Ends the thread. The writer's connection is closed last and empties the WAL."""
        threads, self._threads = self._threads, ()
        if self._idle is not None:
            self._idle.cancel()
        if threads:
            await self._mover.close()

    def see_to(self) -> None:
        """Called after each commit group: starts a checkpoint if one is due, and a clean-up after `IDLE_S` without
        commits."""
        if not self._threads:
            return
        pages = self.pages
        if pages < self._pages_seen_to:
            self._pages_seen_to = 0
        if pages - self._pages_seen_to >= CHECKPOINT_PAGES:
            self._pages_seen_to = pages
            self._mover.post(partial(self._try, self._shorten))
        if self._idle is not None:
            self._idle.cancel()
        clean_up = partial(self._mover.post, partial(self._try, self._clean_up))
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, clean_up)

    # On the WAL's own thread

    def _shorten(self, db: apsw.Connection) -> None:
        pages, moved = self._move(db)
        # While a reader needs old pages the WAL cannot be restarted, and nobody should wait for that reader.
        if pages >= LONG_PAGES and pages - moved < CHECKPOINT_PAGES:
            self._writer.post(partial(self._try, self._start_over))

    def _clean_up(self, db: apsw.Connection) -> None:
        with suppress(apsw.BusyError):
            self._move(db)
        self._writer.post(partial(self._try, self.empty))

    def _move(self, db: apsw.Connection) -> tuple[int, int]:
        """Checkpoints as far as readers allow. Returns the pages in the WAL, and how many of them were copied."""
        found = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        flush(db)
        return found

    # On the writer's thread

    def count(self, db: apsw.Connection, name: str, pages: int) -> int:
        """Called by SQLite with each commit."""
        self.pages = pages
        return apsw.SQLITE_OK

    def empty(self, db: apsw.Connection, wait_s: float = 0.0) -> None:
        # If another connection reads or writes now, it is left for later.
        with self._patience.of(wait_s), suppress(apsw.BusyError):
            if self.pages:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                self.pages = 0

    def _start_over(self, db: apsw.Connection) -> None:
        if self.pages >= CROWDED_PAGES:
            self.empty(db, CROWDED_WAIT_S)
        elif self.pages >= LONG_PAGES:
            with self._patience.of(LONG_WAIT_S):
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)

    # On either

    def _try(self, work: Callable[[apsw.Connection], None], db: apsw.Connection) -> None:
        """An error here fails no caller: what was committed is safe in the WAL."""
        try:
            work(db)
        except apsw.BusyError:
            """Another process checkpoints now, or holds a lock: the work is left to that process, or for later."""
        except apsw.Error as error:
            log.warning(
                "The WAL of %s could not be checkpointed. What was committed is safe in it, and it grows until this "
                "is repaired: %s",
                self._path,
                translate(error, self._path),
            )
            if isinstance(error, BREAKS_CONNECTION):
                self._read_anew()
            raise

    def _read_anew(self) -> None:
        """Closes every connection of this process and opens them again.

        After a failed flush, the system may have dropped pages that SQLite considers checkpointed until all connections
        are closed. The next connection to open copies the whole WAL again.
        """
        # One round at a time, or two rounds would wait for each other.
        with self._renewing:
            if threads := self._threads:
                everybody = threading.Barrier(len(threads))
                for thread in threads:
                    thread.renew(everybody, RENEWED_S)
