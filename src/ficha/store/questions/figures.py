"""The queries about figures: those of single commits, those added up, and the counts that alerts need."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from functools import partial
from typing import Final

from ...core.figures import CURSOR, TOTAL, rollup_key
from ...core.policy import TIME_BITS
from ...core.records import QueueCount, Rollup
from .. import base as q
from ..commits import decoded_figures
from ..keyed.tables import KEYED
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement, sql_file

_ROLLUPS: Final = KEYED["Rollup"]
_CURSORS: Final = KEYED["FigureCursor"]
_text: Final = partial(sql_file, __package__)


def list_figures(sql: Dialect, query: q.ListFigures, now: int | None) -> Asking[list[q.CommitFigures]]:
    page = Select(sql, f"SELECT number, {sql.read('at', 'instant')}, figures FROM ficha.commits")
    page.where("figures IS NOT NULL")
    if query.among:
        rows = yield Statement(
            f"{page.statement().text}AND {sql.among('number', 1, 'number')} ORDER BY number",
            (sql.values(query.among, "number"),),
        )
    else:
        page.matches("number", ">", query.after, "number")
        page.matches("number", "<=", query.last, "number")
        rows = yield page.statement("ORDER BY number", query.limit)
    return [q.CommitFigures(number, at, decoded_figures(text)) for number, at, text in rows]


def get_figure_point(sql: Dialect, query: q.GetFigurePoint, now: int | None) -> Asking[q.FigurePoint]:
    first, last = (f"(SELECT coalesce({which}(number), 0) FROM ficha.commits)" for which in ("min", "max"))
    time = f"coalesce({sql.parameter(1, 'number')}, {sql.clock})"
    [(at, lowest, highest, *cursor)] = yield Statement(
        f"SELECT {time}, {first}, {last}, {sql.selected(_CURSORS, 't')} FROM (SELECT 1) AS one "
        f"LEFT JOIN ficha.figure_cursors t ON t.name = {sql.parameter(2, 'text')}",
        (now, CURSOR),
    )
    return q.FigurePoint(int(at), None if cursor[0] is None else _CURSORS.record(cursor), lowest, highest)


def list_rollups(sql: Dialect, query: q.ListRollups, now: int | None) -> Asking[list[Rollup]]:
    page = Select(sql, f"SELECT {sql.selected(_ROLLUPS, 't')} FROM ficha.rollups t")
    page.matches("t.key", ">=", rollup_key(query.level, query.since_at), "text")
    page.matches("t.key", "<", f"{query.level} ~", "text")
    return [*map(_ROLLUPS.record, (yield page.statement("ORDER BY t.key")))]


def get_total(sql: Dialect, query: q.GetTotal, now: int | None) -> Asking[Rollup | None]:
    text = f"SELECT {sql.selected(_ROLLUPS, 't')} FROM ficha.rollups t WHERE t.key = {sql.parameter(1, 'text')}"
    rows = yield Statement(text, (TOTAL,))
    return _ROLLUPS.record(rows[0]) if rows else None


def list_old_rollups(sql: Dialect, query: q.ListOldRollups, now: int | None) -> Asking[list[str]]:
    page = Select(sql, "SELECT t.key FROM ficha.rollups t")
    page.matches("t.key", ">=", f"{query.level} ", "text")
    page.matches("t.key", "<", rollup_key(query.level, query.before_at), "text")
    return [row[0] for row in (yield page.statement("ORDER BY t.key", query.limit))]


def get_queue_counts(sql: Dialect, query: q.GetQueueCounts, now: int | None) -> Asking[q.QueueCounts]:
    counts = [QueueCount(*row[:3], *map(int, row[3:])) for row in (yield Statement(_text("queue_counts")))]
    ahead = yield from list_figures(sql, q.ListFigures(query.after, limit=query.limit), now)
    if query.left_out:
        ahead += yield from list_figures(sql, q.ListFigures(among=query.left_out), now)
    return q.QueueCounts(counts, ahead)


def get_alert_counts(sql: Dialect, query: q.GetAlertCounts, now: int | None) -> Asking[q.AlertCounts]:
    text = _text("alert_counts").format(moment=sql.moment, limit=sql.parameter(4, "number"))
    return q.AlertCounts(*(yield Statement(text, (now, query.stuck_ms, query.late_ms, query.limit, 0)))[0])


def get_backlog(sql: Dialect, query: q.GetBacklog, now: int | None) -> Asking[q.Backlog]:
    firsts = {
        f"first_{name}": sql.read(f"min({column})", "instant")
        for name, column in (("expiry", "expires_at"), ("deadline", "deadline_at"), ("due", "due_at"))
    }
    words = {"moment": sql.moment, "at": sql.read("at", "instant"), "limit": sql.parameter(4, "number")}
    rows = yield Statement(_text("backlog").format(**words, **firsts), (now, 0, 0, query.limit, 0))
    [(at, overdue, expired_at, timed_out_at, due_at, messages, message_at, hooks, hook_at)] = rows
    overdue_at = min((one for one in (expired_at, timed_out_at, due_at) if one is not None), default=None)
    return q.Backlog(at, overdue, overdue_at, messages, message_at, hooks, hook_at)


def list_pool_times(sql: Dialect, query: q.ListPoolTimes, now: int | None) -> Asking[list[q.PoolTimes]]:
    text = _text("pool_times").format(bits=TIME_BITS, heard=sql.read("max(heartbeat_at)", "instant"))
    return q.pool_times((yield Statement(text)))


FIGURE_QUESTIONS: Final[Answers] = {
    q.ListFigures: list_figures,
    q.GetFigurePoint: get_figure_point,
    q.ListRollups: list_rollups,
    q.ListOldRollups: list_old_rollups,
    q.GetQueueCounts: get_queue_counts,
    q.GetTotal: get_total,
    q.GetAlertCounts: get_alert_counts,
    q.GetBacklog: get_backlog,
    q.ListPoolTimes: list_pool_times,
}
