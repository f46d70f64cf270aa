"""The queries about workers: what each of them has done and holds now, and which were seen lately."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from collections import defaultdict
from typing import Final

from ...core.policy import MILLISECOND
from ...core.records import Tally, Worker
from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement, sql_file
from ..sql.tables import WORKERS
from .pages import page_of

TALLY_SUMS: Final = sql_file(__package__, "tally_sums")


def list_workers(sql: Dialect, query: q.ListWorkers, now: int | None) -> Asking[q.WorkerList]:
    """Adds up counts and leases of all workers at once: they are few rows, and there is no index by worker."""
    if now is None:
        [(now,)] = yield Statement(f"SELECT {sql.clock}")
    known = "SELECT name FROM ficha.workers UNION SELECT worker FROM ficha.worker_counts"
    page = Select(sql, f"SELECT name FROM ({known}) w")
    page.matches("name", ">", query.after)
    names = [name for (name,) in (yield page.statement("ORDER BY name", query.limit))]
    seen = page_of(sql, WORKERS)
    seen.where(sql.among("t.name", 1, "text"))
    rows = yield Statement(seen.statement().text, (sql.values(names, "text"),))
    workers = {row[0]: WORKERS.record(row) for row in rows}
    tallies = defaultdict(list)
    for row in (yield Statement(f"{TALLY_SUMS} ORDER BY worker, kind")):
        tallies[row[0]].append(Tally(*row))
    stuck = f"count(*) FILTER (WHERE heartbeat_at < {sql.parameter(1, 'instant')})"
    text = f"SELECT worker, count(*), {stuck} FROM ficha.leases WHERE worker IS NOT NULL GROUP BY worker"
    rows = yield Statement(text, (now - query.stuck_ms * MILLISECOND,))
    held = {name: counts for name, *counts in rows}
    return q.WorkerList(
        now, [q.WorkerCounts(name, workers.get(name), tuple(tallies[name]), *held.get(name, (0, 0))) for name in names]
    )


def list_workers_seen(sql: Dialect, query: q.ListWorkersSeen, now: int | None) -> Asking[list[Worker]]:
    page = page_of(sql, WORKERS)
    page.where("t.stopped_at IS NULL")
    page.matches("t.seen_at", ">=", query.since_at, "instant")
    return [*map(WORKERS.record, (yield page.statement("ORDER BY t.name", query.limit)))]


WORKER_QUESTIONS: Final[Answers] = {q.ListWorkers: list_workers, q.ListWorkersSeen: list_workers_seen}
