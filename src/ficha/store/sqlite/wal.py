"""The journal is kept short beside the writer: what was committed moves on to the database while commits go on.

A checkpoint writes pages all over the database and flushes them, which takes as long as dozens of commits. One that
runs while others commit makes nobody wait, but leaves what came meanwhile, and flushes nothing; so the flush is done
here. When the journal is long, only that little rest is left for the writer, whose next commit then starts it over.
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
"""Pages that gather in the journal before they are moved to the database."""
LONG_PAGES = 12_000
"""Pages from which it is started over."""
LONG_WAIT_S = 0.02
"""How long that waits for somebody else who writes, or reads what is old."""
CROWDED_PAGES = 40_000
"""Pages from which the writer waits longer for readers that come and go, so that the journal stops growing."""
CROWDED_WAIT_S = 0.25
IDLE_S = 5.0
"""Quiet time after which the journal is emptied."""
RENEWED_S: Final = 5.0
"""How long connections wait for each other to be closed."""

log = logging.getLogger("ficha.store")


class Journal:
    """That of one open store. It has a thread of its own, which sleeps until there is something to move."""

    def __init__(self, path: str, patience: Patience) -> None:
        self.pages = 0
        """How long it was after the writer's last commit."""
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
        """Ends the thread. The writer's connection, which is the last to be closed, is the one to empty the journal."""
        threads, self._threads = self._threads, ()
        if self._idle is not None:
            self._idle.cancel()
        if threads:
            await self._mover.close()

    def see_to(self) -> None:
        """After each batch: what is to be done by now, and what once nothing happens any more."""
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

    # On the thread of its own

    def _shorten(self, db: apsw.Connection) -> None:
        pages, moved = self._move(db)
        # As long as a reader needs what is old it cannot be started over, and nobody is to wait for that.
        if pages >= LONG_PAGES and pages - moved < CHECKPOINT_PAGES:
            self._writer.post(partial(self._try, self._start_over))

    def _clean_up(self, db: apsw.Connection) -> None:
        with suppress(apsw.BusyError):
            self._move(db)
        self._writer.post(partial(self._try, self.empty))

    def _move(self, db: apsw.Connection) -> tuple[int, int]:
        """Moves what was committed by now, as far as readers allow. Answers how long the journal is, and how far."""
        found = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        flush(db)
        return found

    # On the writer's thread

    def count(self, db: apsw.Connection, name: str, pages: int) -> int:
        """Told by SQLite with each commit."""
        self.pages = pages
        return apsw.SQLITE_OK

    def empty(self, db: apsw.Connection, wait_s: float = 0.0) -> None:
        # If somebody reads or writes just now, it is for them or for later.
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
        """What fails here fails nobody's call: what was committed is safe in the journal."""
        try:
            work(db)
        except apsw.BusyError:
            """Somebody else does the same just now, or stands in the way: it is for them or for later."""
        except apsw.Error as error:
            log.warning(
                "The journal of %s could not be emptied. What was committed is safe in it, and it grows until this is "
                "mended: %s",
                self._path,
                translate(error, self._path),
            )
            if isinstance(error, BREAKS_CONNECTION):
                self._read_anew()
            raise

    def _read_anew(self) -> None:
        """Opens every connection of this process anew.

        After a flush that failed, a system may have given up what it had not written yet. SQLite takes it for moved,
        until all have closed the file; who opens it then moves everything again, from the beginning of the journal.
        """
        # One such round after the other, or they would wait for each other.
        with self._renewing:
            if threads := self._threads:
                everybody = threading.Barrier(len(threads))
                for thread in threads:
                    thread.renew(everybody, RENEWED_S)
