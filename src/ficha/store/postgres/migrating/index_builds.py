"""Builds an index while others write to its table, also one that an interrupted run left incomplete."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from ...base import StoreError
from ...migrations import Tell
from ...sql.dialect import sql_file
from ..connections import Connection

LONG_S: Final = 7 * 86_400.0
"""A limit for statements that may take as long as the tables are large."""
_INDEX_STATE: Final = sql_file(__package__, "index_state")
_CREATED: Final = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (?:IF NOT EXISTS )?(\w+)", re.IGNORECASE)
_LOOK_S: Final = 0.2


async def build_index(connection: Connection, text: str, tell: Tell) -> None:
    """Runs one statement outside any transaction. If it creates an index, that index is complete afterwards.

    After a process was killed, its index may be incomplete, or the database may still be building it: this waits for
    that build, and drops an incomplete index and builds it again.
    """
    match = _CREATED.search(text)
    name = None if match is None else match[1]
    if name is not None and await _is_complete(connection, name, tell):
        return
    # A role's own time-out is meant for queries. Where there is none, nothing is set: a pooler might keep the setting.
    if await connection.fetchval("SHOW statement_timeout") != "0":
        await connection.execute("SET statement_timeout = 0")
    await connection.execute(text, timeout=LONG_S)
    if name is not None and not await _is_complete(connection, name, tell):
        raise StoreError(f"the index {name} is not complete after it was built; run `ficha migrate up` again")


async def _is_complete(connection: Connection, name: str, tell: Tell) -> bool:
    """Returns whether the index is complete. Waits for a build under way; drops an incomplete one with no builder."""
    is_told = False
    while (row := await connection.fetchrow(_INDEX_STATE, name)) is not None:
        is_valid, builder = row
        if builder is None:
            if is_valid:
                return True
            tell(f"the index {name} is incomplete, an interrupted run left it: it is dropped and built again")
            await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS ficha.{name}", timeout=LONG_S)
            return False
        if not is_told:
            tell(f"the index {name} is being built by process {builder} of the database: waiting for it")
        is_told = True
        await asyncio.sleep(_LOOK_S)
    return False
