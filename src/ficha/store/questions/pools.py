"""The queries about the pools: how full they are, what is due in them, how fast jobs run."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from functools import partial
from typing import Final

from ...core.policy import MILLISECOND, SECOND
from .. import base as q
from ..commits import decoded
from ..sql import tables as t
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement, sql_file
from .pages import page_of

_text: Final = partial(sql_file, __package__)


def list_pools(sql: Dialect, query: q.ListPools, now: int | None) -> Asking[list[q.PoolCounts]]:
    busy = page_of(sql, t.POOLS, "(SELECT count(*) FROM ficha.leases l WHERE l.pool = t.name), 0, 0, ")
    counted = Statement(_text("pools").format(pool=sql.selected(t.POOLS, "t")))
    rows = yield counted if query.count_waiting else busy.statement("ORDER BY t.name")
    return [q.PoolCounts(t.POOLS.record(row[3:]), *row[:3]) for row in rows]


def get_due(sql: Dialect, query: q.GetDue, now: int | None) -> Asking[q.Due]:
    names = {"job_id": sql.read("job_id", "uuid"), "id": sql.read("id", "uuid"), "at": sql.read("at", "instant")}
    text = _text("due").format(moment=sql.moment, limit=sql.parameter(4, "number"), **names)
    rows = yield Statement(text, (now, query.stuck_ms, query.max_age_ms, query.limit, query.reservations_kept_ms))
    kinds = ("now", "job", "reservation", "key", "session", "next")
    found = {kind: [row[1:] for row in rows if row[0] == kind] for kind in kinds}
    jobs, reservations = dict.fromkeys(name[0] for name in found["job"]), [name[0] for name in found["reservation"]]
    following = {pool: int(at) for pool, at, _ in found["next"]}
    keys, sessions = [(a, s, k) for a, s, k in found["key"]], [name[0] for name in found["session"]]
    return q.Due(int(found["now"][0][0]), [*jobs], reservations, keys, following, sessions)


def get_stats(sql: Dialect, query: q.GetStats, now: int | None) -> Asking[q.Stats]:
    if now is None:
        [(now,)] = yield Statement(f"SELECT {sql.clock}")
    stuck_at = now - query.stuck_ms * MILLISECOND
    held = yield Statement(_text("stats_held").format(stuck_at=sql.parameter(1, "instant")), (stuck_at,))
    [(queued, dead)] = yield Statement(_text("stats_counts"))
    newest = Select(sql, f"SELECT {sql.read('at', 'instant')}, events FROM ficha.commits WHERE size > 0")
    told = yield newest.statement("ORDER BY number DESC", q.COMMITS_AVERAGED)
    completed = [event.job_id for at, text in told for event in decoded(text, at) if event.kind == "completed"]
    times = yield Statement(
        f"SELECT {sql.read('finished_at', 'instant')}, {sql.read('started_at', 'instant')} FROM ficha.jobs "
        f"WHERE {sql.among('id', 1, 'uuid')}",
        (sql.values(completed, "uuid"),),
    )
    runs = [finished_at - started_at for finished_at, started_at in times if started_at is not None]
    return q.Stats.counted(held, queued, dead, sum(runs) / len(runs) / SECOND if runs else None)


POOL_QUESTIONS: Final[Answers] = {
    q.ListPools: list_pools,
    q.GetDue: get_due,
    q.GetStats: get_stats,
}
