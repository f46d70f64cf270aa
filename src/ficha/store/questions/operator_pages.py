"""The queries of an operator's pages: the audit log, batches, dead letters by error, and what belongs to one job."""

# ruff: noqa: S608 (texts are put together from names of our own; values are always parameters)
from __future__ import annotations

from collections import Counter
from typing import Final

from ...core.records import Event, Reservation, ReservationState, Status
from ...core.runs import TELL_OF_RUNS
from ...core.states import ACTIVE
from .. import base as q
from ..sql import tables as t
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement, sql_file
from .jobs import not_run_again

_MOST: Final = 2**62
"""No number is greater."""


def list_audit(sql: Dialect, query: q.ListAudit, now: int | None) -> Asking[list[q.NumberedLine]]:
    """Walks back over all lines, or those of a target or of an actor."""
    page = Select(sql, f"SELECT t.number, {sql.selected(t.AUDIT, 't')} FROM ficha.audit t")
    column = "target" if query.target is not None else "actor" if query.actor is not None else None
    before = page.given(_MOST if query.before_number is None else query.before_number, "number")
    if column is None:
        page.where(f"t.number < {before}")
    else:
        value = page.given(getattr(query, column), "text")
        page.where(sql.part_of_index(f"t.{column}", value, "t.number", "0", before))
    if query.target is not None:
        # In this form the condition cannot use the index by actor, who may have many more lines than the target.
        page.matches("coalesce(t.actor, '')", "=", query.actor)
    rows = yield page.statement(f"ORDER BY {'' if column is None else f't.{column} DESC, '}t.number DESC", query.limit)
    return [q.NumberedLine(number, t.AUDIT.record(line)) for number, *line in rows]


def list_batches(sql: Dialect, query: q.ListBatches, now: int | None) -> Asking[q.BatchPart]:
    page = Select(sql, f"SELECT {sql.selected(t.BATCHES, 't')} FROM ficha.batches t")
    page.matches("t.account_id", "=", query.account_id)
    page.matches("t.id", "<", query.before, "uuid")
    found = [*map(t.BATCHES.record, (yield page.statement("ORDER BY t.id DESC", query.limit)))]
    batches = q.countable(found, query.counted)
    status, batch = "coalesce(l.status, j.status)", sql.read("j.batch_id", "uuid")
    source = "ficha.jobs j LEFT JOIN ficha.leases l ON l.job_id = j.id"
    latest = f"{sql.among('j.batch_id', 1, 'uuid')} AND {not_run_again(sql.among('n.batch_id', 1, 'uuid'))}"
    text = f"SELECT {batch}, {status}, count(*) FROM {source} WHERE {latest} GROUP BY 1, 2"
    rows = (yield Statement(text, (sql.values([one.id for one in batches], "uuid"),))) if batches else []
    counts: dict[str, dict[Status, int]] = {one.id: {} for one in batches}
    for batch_id, name, jobs in rows:
        counts[batch_id][name] = jobs
    goes_on = len(found) == query.limit or len(batches) < len(found)
    return q.BatchPart([q.BatchCounts(one, counts[one.id]) for one in batches], goes_on)


def count_checkpoints(sql: Dialect, query: q.CountCheckpoints, now: int | None) -> Asking[dict[str, int]]:
    status = "coalesce(l.status, j.status)"
    joined = "LEFT JOIN ficha.leases l ON l.job_id = j.id LEFT JOIN ficha.checkpoints c ON c.job_id = j.id"
    page = Select(sql, f"SELECT coalesce(c.name, ''), count(*) FROM ficha.jobs j {joined}")
    page.matches("j.batch_id", "=", query.batch_id, "uuid")
    page.where(f"{status} IN ({', '.join(page.given(one, 'text') for one in sorted(ACTIVE))})")
    rows = yield page.statement("GROUP BY 1")
    return {name: jobs for name, jobs in rows}


def list_reservations(sql: Dialect, query: q.ListReservations, now: int | None) -> Asking[list[Reservation]]:
    page = Select(sql, f"SELECT {sql.selected(t.RESERVATIONS, 't')} FROM ficha.reservations t")
    page.matches("t.account_id", "=", query.account_id)
    page.matches("t.id", "<", query.before, "uuid")
    if query.state == "expired":
        at = page.given(query.at, "instant")
        page.where(f"(t.state = 'expired' OR t.state = 'active' AND t.expires_at <= {at})")
    else:
        page.matches("t.state", "=", query.state)
        page.matches("t.expires_at", ">", query.at if query.state == "active" else None, "instant")
    return [*map(t.RESERVATIONS.record, (yield page.statement("ORDER BY t.id DESC", query.limit)))]


def count_reservations(
    sql: Dialect, query: q.CountReservations, now: int | None
) -> Asking[dict[ReservationState, int]]:
    page = Select(sql, "")
    over = f"t.expires_at <= {page.given(query.at, 'instant')}"
    page.matches("t.account_id", "=", query.account_id)
    counted = page.statement("GROUP BY 1, 2")
    text = f"SELECT t.state, {over}, count(*) FROM ficha.reservations t{counted.text}"
    found: Counter[ReservationState] = Counter()
    for state, is_over, count in (yield Statement(text, counted.values)):
        found["expired" if state == "active" and is_over else state] += count
    return dict(found)


def sum_dead_letters(sql: Dialect, query: q.SumDeadLetters, now: int | None) -> Asking[list[q.DeadSum]]:
    text = sql_file(__package__, "dead_sums").format(
        id=sql.read("id", "uuid"),
        length=query.error_length,
        limit=sql.parameter(1, "number"),
        first_at=sql.read("min(dead_at)", "instant"),
        last_at=sql.read("max(dead_at)", "instant"),
    )
    return [q.DeadSum(*row) for row in (yield Statement(text, (query.searched,)))]


def list_run_events(sql: Dialect, query: q.ListRunEvents, now: int | None) -> Asking[list[Event]]:
    page = Select(sql, f"SELECT {sql.selected(t.EVENTS, 't')} FROM ficha.events t")
    page.matches("t.job_id", "=", query.job_id, "uuid")
    page.where(f"t.kind IN ({', '.join(page.given(kind, 'text') for kind in TELL_OF_RUNS)})")
    return [*map(t.EVENTS.record, (yield page.statement("ORDER BY t.number", query.limit)))]


def get_queue_depth(sql: Dialect, query: q.GetQueueDepth, now: int | None) -> Asking[q.QueueDepth | None]:
    words = {"name": sql.parameter(1, "text"), "limit": sql.parameter(2, "number")}
    text = sql_file(__package__, "queue_depth").format(**words, pool=sql.selected(t.POOLS, "t"))
    rows = yield Statement(text, (query.pool, query.count_up_to))
    return q.QueueDepth(t.POOLS.record(rows[0][3:]), *rows[0][:3]) if rows else None


OPERATOR_QUESTIONS: Final[Answers] = {
    q.ListAudit: list_audit,
    q.ListBatches: list_batches,
    q.CountCheckpoints: count_checkpoints,
    q.ListReservations: list_reservations,
    q.CountReservations: count_reservations,
    q.SumDeadLetters: sum_dead_letters,
    q.ListRunEvents: list_run_events,
    q.GetQueueDepth: get_queue_depth,
}
