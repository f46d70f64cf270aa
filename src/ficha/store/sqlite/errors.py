"""What SQLite's errors mean to the rest of Ficha, each with what to do about it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

import apsw

from ..base import DiskFailed, DiskFull, ReadOnly, SchemaMismatch, StoreError, Transient, Unavailable

BREAKS_CONNECTION = (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError)
"""After these errors the connection is closed and opened again, because its view of the file may be wrong."""


def translate(error: apsw.Error, path: str) -> StoreError:
    """The store's error for an error of SQLite. SQLite has rolled back already, or the caller does."""
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and _has_no_space(path)):
        return DiskFull(
            f"there is no space left for {path}: nothing was written. Free some space; no restart is needed"
        )
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return Transient(
                f"another process holds the database's write lock ({path}) and did not release it in time; run it again"
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return ReadOnly(
                f"{path} cannot be written ({error}): the file and its folder must be writable for this user, and the "
                "disk must not be mounted read-only"
            )
        case apsw.CantOpenError():
            return Unavailable(
                f"{path} cannot be opened ({error}): check that its folder exists, that it is a file, and that this "
                "user may read and write both"
            )
        case apsw.IOError():
            return DiskFailed(
                f"the disk failed while reading or writing {path} ({error}): look at the system's log. The next call "
                "opens the file again"
            )
        case apsw.CorruptError():
            return StoreError(
                f"{path} is damaged ({error}): stop every process that uses it, keep a copy of it and of its -wal "
                "file, and restore a backup"
            )
        case apsw.NotADBError():
            return StoreError(f"{path} is not an SQLite database: check the path")
        case apsw.NoMemError():
            return Unavailable(f"there is no memory left to work on {path}: nothing was written")
        case apsw.ConstraintError():
            return StoreError(
                f"the database refused a row ({error}): nothing was kept. Ficha has a bug, or rows were changed by "
                "hand; `ficha verify` shows what is wrong"
            )
        case apsw.SQLError() if "no such" in str(error) or "has no column" in str(error):
            return SchemaMismatch(f"the schema of {path} is not complete ({error}): run `ficha migrate up`")
        case _:
            return StoreError(f"SQLite refused ({type(error).__name__}: {error}) on {path}; nothing was kept")


def _has_no_space(path: str) -> bool:
    """SQLite says so only of some of its files."""
    with suppress(OSError):
        return shutil.disk_usage(os.path.dirname(os.path.abspath(path))).free < 4_096
    return False
