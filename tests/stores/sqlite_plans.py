"""Which way SQLite takes for each statement that the store sends, and how much work that is, by its own count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import apsw
import apsw.ext
from msgspec import Struct

from ficha.store.sqlite import SqliteStore


class Work(Struct):
    """What a statement did since it was last asked for, over all its runs.

    steps: of SQLite's machine; a row that is passed over takes one at the least.
    scanned: rows passed over in scans of a whole table or index.
    sorted: how often rows were put in order.
    """

    text: str
    runs: int = 0
    steps: int = 0
    scanned: int = 0
    sorted: int = 0


class Watch:
    """What both connections of a store did."""

    def __init__(self) -> None:
        self._works: dict[str, Work] = {}

    def note(self, event: dict[str, Any]) -> None:
        work = self._works.setdefault(event["sql"], Work(event["sql"]))
        counts = event["stmt_status"]
        work.runs += 1
        work.steps += counts["SQLITE_STMTSTATUS_VM_STEP"]
        work.scanned += counts["SQLITE_STMTSTATUS_FULLSCAN_STEP"]
        work.sorted += counts["SQLITE_STMTSTATUS_SORT"]

    def take(self) -> list[Work]:
        """What was done since it was last asked for."""
        works, self._works = self._works, {}
        return list(works.values())


@asynccontextmanager
async def watched(path: str) -> AsyncIterator[tuple[SqliteStore, Watch]]:
    """A store whose every statement is counted."""
    watch, store = Watch(), SqliteStore(path)
    await store.open()
    try:
        for thread in (store._writer, store._reader):
            assert thread is not None
            await thread.call(lambda db: db.trace_v2(apsw.SQLITE_TRACE_PROFILE, watch.note))
        yield store, watch
    finally:
        await store.close()


def scans_and_sorts(db: apsw.Connection, text: str) -> list[str]:
    """The steps of SQLite's plan that read a table or an index from its beginning, or put rows in order."""
    plan = apsw.ext.query_info(db, text, explain_query_plan=True).query_plan
    return [] if plan is None else [step for step in _steps(plan) if _is_scan(step) or "TEMP B-TREE" in step]


def _steps(plan: Any) -> list[str]:
    return [plan.detail, *(step for part in plan.sub or () for step in _steps(part))]


def _is_scan(step: str) -> bool:
    """Values that were handed in are walked through too, and a row that is made up is one row."""
    return step.startswith("SCAN") and "VIRTUAL TABLE" not in step and "CONSTANT ROW" not in step
