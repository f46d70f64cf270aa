"""Copies an SQLite database while it is in use, by SQLite's own backup interface.

The copy is of one moment: a read transaction is held while pages are copied, so that no commit of others starts the
copy again. Readers and writers wait for nothing; the WAL grows meanwhile. The copy gets its name only when it is
whole, checked and on the disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

import apsw
from msgspec import Struct

from .base import StoreError
from .private_file import create_private
from .sqlite.connection import Patience, connect, refuse_old_library
from .sqlite.errors import translate

STEP_PAGES: Final = 4_096
"""How many pages are copied between two calls of `progress`: 16 MB."""
BUSY_S: Final = 30.0

Progress = Callable[[int, int], None]
"""Called with how many pages are copied so far, and how many there are."""


class BackupMade(Struct, frozen=True):
    """A finished back-up: the copy's path, its size in bytes, and how long the copy and its check took."""

    path: str
    size: int
    took_s: float


def back_up(source: str, target: str, progress: Progress | None = None, *, step_pages: int = STEP_PAGES) -> BackupMade:
    """Copies the database to a new file that only its owner can read. Raises StoreError; then there is no such file."""
    refuse_old_library()
    began_at = time.monotonic()
    path = os.path.abspath(target)
    if os.path.lexists(path):
        raise StoreError(f"{path} exists already, and a back-up overwrites nothing: name a new file")
    if not os.path.isdir(os.path.dirname(path)):
        raise StoreError(f"the folder {os.path.dirname(path)} does not exist: make it first")
    if not os.path.exists(source):
        raise StoreError(f"there is no database {source}: check the path")
    part = f"{path}.part"
    if os.path.lexists(part):
        raise StoreError(f"{part} exists: another back-up runs, or one was interrupted; then delete that file")
    create_private(part)
    try:
        _copy(source, part, progress, step_pages)
        _check(part)
        _keep(part, path)
    except apsw.Error as error:
        raise translate(error, source) from error
    except OSError as error:
        raise StoreError(f"the back-up cannot be written to {path}: {error.strerror}") from error
    finally:
        for left in (part, f"{part}-wal", f"{part}-shm", f"{part}-journal"):
            with suppress(OSError):
                os.unlink(left)
    return BackupMade(path, os.path.getsize(path), round(time.monotonic() - began_at, 3))


def _copy(source: str, part: str, progress: Progress | None, step_pages: int) -> None:
    patience = Patience(BUSY_S)
    with closing(connect(source, patience, read_only=True)) as theirs, closing(apsw.Connection(part)) as copy:
        theirs.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        # No other process uses the copy, and it is flushed when it is whole.
        copy.pragma("journal_mode", "OFF")
        copy.pragma("synchronous", "OFF")
        with copy.backup("main", theirs, "main") as pages:
            while not pages.done:
                pages.step(step_pages)
                if progress is not None:
                    progress(pages.page_count - pages.remaining, pages.page_count)
        theirs.execute("ROLLBACK")


def _check(part: str) -> None:
    """Makes the copy one file without a WAL, and checks every page of it."""
    with closing(apsw.Connection(part)) as copy:
        copy.pragma("journal_mode", "DELETE")
        found = [line for (line,) in copy.execute("PRAGMA integrity_check(10)")]
    if found != ["ok"]:
        raise StoreError(f"the copy is damaged, and so may the database be; nothing was kept: {'; '.join(found)}")


def _keep(part: str, path: str) -> None:
    """Flushes the copy, then gives it its name, which fails if somebody made a file of that name meanwhile."""
    _flush(part)
    try:
        os.link(part, path)
    except FileExistsError:
        raise StoreError(f"{path} was made by somebody else meanwhile; nothing was overwritten") from None
    _flush(os.path.dirname(path))


def _flush(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
