"""The folder of files: whether it can be used, has room, and holds what the rows say, no less and no more.

A file's row is written before its bytes and deleted after them. So after a restore, bytes without a row are what was
uploaded after the database was copied, and a row without bytes is a file that was lost.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path

from ..core.records import File
from ..files.local_disk import folder_of
from ..files.storage import INCOMING
from ..operations.files import storage_key
from .database import Looking
from .disk_space import free_space
from .findings import Finding
from .looked_over import LookedOver

GROUP = "files"
NAMED = 3
"""How many files a finding names."""
ASKED_AT_ONCE = 500


async def files(seen: LookedOver[Looking]) -> AsyncIterator[Finding]:
    url, limits = seen.app.files_url, seen.limits
    seen.facts["files"] = url.partition("?")[0] if not url.startswith("file:") else url
    newest = await _newest(seen.database, limits.files_checked)
    if not url.startswith("file:"):
        return  # What an S3-compatible store holds is for that store to check.
    folder = folder_of(url)
    if not folder.is_dir():
        if newest:
            yield Finding(
                GROUP,
                "FILES_AWAY",
                "critical",
                f"There are files, and the folder {folder} that should hold their bytes is not there.",
                "Mount or restore it. If this is not the machine that serves files, run the doctor there; a relative "
                "path is relative to where a process was started (FICHA_FILES_URL).",
            )
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        what = f"The folder {folder} cannot be written by this user, so uploads and results fail."
        yield Finding(
            GROUP, "FILES_NOT_WRITABLE", "critical", what, "Run as the user that owns it, or give it the rights."
        )
    for finding in free_space(GROUP, str(folder), "the files", limits):
        yield finding
    lost = [file for file in newest if not (folder / storage_key(file)).exists()]
    lost = [file for file in lost if await _is_stored(seen.database, file.id)]
    if lost:
        yield Finding(
            GROUP,
            "FILES_LOST",
            "critical",
            f"{len(lost)} of the {len(newest)} newest files have a row and no bytes: {_named([f.id for f in lost])}.",
            "Restore the folder from a back-up that was taken after the database's. A file that cannot be had again: "
            "`ficha remove-file`.",
        )
    unknown = await _unknown(seen.database, folder, limits.files_checked)
    if unknown:
        yield Finding(
            GROUP,
            "FILES_UNKNOWN",
            "warning",
            f"{len(unknown)} files of those looked at in {folder} belong to no row: {_named(unknown)}. Nothing uses "
            "them, and no sweep deletes them.",
            "After a restore they are what came later than the database's copy: delete them. Else see that the folder "
            "belongs to this database alone.",
        )


async def _newest(database: Looking, most: int) -> list[File]:
    created_at = database.dialect.read("created_at", "instant")
    rows = await database.ask("newest_files", id=database.dialect.read("id", "uuid"), at=created_at, limit=str(most))
    return [File(file, account, "", "stored", "input", at) for file, account, at in rows]


async def _is_stored(database: Looking, file_id: str) -> bool:
    """Whether a file is still stored: it may have been removed since the first query."""
    is_it = f"id = {database.dialect.parameter(1, 'uuid')}"
    return bool(await database.rows(f"SELECT 1 FROM ficha.files WHERE {is_it} AND state = 'stored'", file_id))  # noqa: S608


async def _unknown(database: Looking, folder: Path, most: int) -> list[str]:
    """Returns the names of files that have bytes and no row."""
    found = await asyncio.to_thread(lambda: [*islice(_names(folder), most)])
    paths = {path.name: path for path in found}
    unknown: list[str] = []
    sql = database.dialect
    for start in range(0, len(found), ASKED_AT_ONCE):
        names = [path.name for path in found[start : start + ASKED_AT_ONCE]]
        ids = sql.values([name.partition("_")[0] for name in names], "uuid")
        columns = f"{sql.read('id', 'uuid')}, {sql.read('created_at', 'instant')}"
        statement = f"SELECT {columns} FROM ficha.files WHERE {sql.among('id', 1, 'uuid')}"  # noqa: S608 (only names)
        known = {f"{file}_{at:x}" for file, at in await database.rows(statement, ids)}
        unknown += [name for name in names if name not in known and paths[name].exists()]
    return sorted(unknown)


def _names(folder: Path) -> Iterator[Path]:
    for owner in folder.iterdir():
        if owner.name != INCOMING and owner.is_dir():
            yield from owner.iterdir()


def _named(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
