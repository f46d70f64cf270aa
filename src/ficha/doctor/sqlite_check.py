"""SQLite: the library, the file with its rights and settings, its WAL, and the disk."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from typing import Any

from .database import LookingAtSqlite
from .disk_space import free_space
from .findings import Finding, size
from .looked_over import LookedOver

Seen = LookedOver[LookingAtSqlite]


async def versions(seen: Seen) -> AsyncIterator[Finding]:
    import apsw

    seen.facts["sqlite"] = apsw.sqlite_lib_version()
    # A library version that can corrupt the file is refused before the connection is opened.
    return
    yield


async def settings(seen: Seen) -> AsyncIterator[Finding]:
    path = seen.database.path
    [(mode,)] = await seen.database.rows("PRAGMA journal_mode")
    if mode != "wal":
        yield Finding(
            "settings",
            "SQLITE_NOT_WAL",
            "warning",
            f"{path} is in the journal mode {mode}, in which readers and the writer wait for each other.",
            "The next process of Ficha that opens it turns WAL on. See which other program changes it.",
        )
    mode_bits = stat.S_IMODE(os.stat(path).st_mode)
    if mode_bits & 0o077:
        yield Finding(
            "settings",
            "FILE_OPEN_TO_OTHERS",
            "warning",
            f"{path} has the mode {mode_bits:o}: other users of the machine can read accounts, payloads and results.",
            f"chmod 600 {path}, and the same for the files -wal and -shm beside it.",
        )


async def disk(seen: Seen) -> AsyncIterator[Finding]:
    path, limits = seen.database.path, seen.limits
    pages: dict[str, Any] = {}
    for name in ("page_size", "page_count", "freelist_count"):
        [(pages[name],)] = await seen.database.rows(f"PRAGMA {name}")
    whole, unused = (pages["page_size"] * pages[name] for name in ("page_count", "freelist_count"))
    wal = os.path.getsize(f"{path}-wal") if os.path.exists(f"{path}-wal") else 0  # noqa: ASYNC240 (local disk)
    seen.facts.update(database_bytes=whole, wal_bytes=wal)
    if wal > limits.wal_bytes:
        yield Finding(
            "disk",
            "WAL_LONG",
            "warning",
            f"{path}-wal has {size(wal)}: a reader keeps old pages alive, or no process of Ficha checkpoints it.",
            "Look for a program that has had the file open in a transaction for long (lsof), and end that.",
        )
    if unused > max(limits.unused_bytes, limits.unused_share * whole):
        yield Finding(
            "disk",
            "FILE_MOSTLY_EMPTY",
            "note",
            f"{size(unused)} of the {size(whole)} of {path} hold nothing. New rows use them.",
            "To give them back, stop every process and run VACUUM; or take a back-up with `ficha backup` and use that.",
        )
    for finding in free_space("disk", os.path.dirname(path), "the database", limits):
        yield finding


CHECKS: Any = {"versions": versions, "settings": settings, "disk": disk}
