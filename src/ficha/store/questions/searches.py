"""The queries of a search among all jobs.

Each walk first finds, by its index alone, how far back its share of the jobs reaches; then it reads the matching jobs
from its beginning down to there. So no statement scans more rows than the search may look at, whatever it matches.
"""

# ruff: noqa: S608 (texts are put together from names of our own; values are always parameters)
from __future__ import annotations

from typing import Final

from ...core.states import ACTIVE, FINAL
from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement
from ..sql.jobs import HOT_ROWS, job_columns, job_of
from ..sql.tables import Kind

_FIRST: Final = "00000000-0000-0000-0000-000000000000"
_LAST: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"
"""No id is less than the one, or greater than the other."""
_HELD: Final = "(SELECT l.status FROM ficha.leases l WHERE l.job_id = j.id)"
_SOURCES: Final = {name: (f"ficha.{name} w", "w.job_id") for name in ("leases", "ready", "parked")}
"""The walks that go over a hot table: its name, and the job's id there."""
_LISTS: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("accounts", "account_id", "text"),
    ("tools", "tool", "text"),
    ("pools", "pool", "text"),
    ("plans", "plan", "text"),
    ("sessions", "session", "text"),
    ("batches", "batch_id", "uuid"),
    ("correlation_ids", "correlation_id", "text"),
    ("keys", "submitted_by", "uuid"),
)
"""The fields of a match that name the values of a column."""


def search_jobs(sql: Dialect, query: q.SearchJobs, now: int | None) -> Asking[q.SearchPart]:
    found = yield from _found(sql, query)
    columns = job_columns(sql, texts=False)
    text = f"SELECT {columns} FROM ficha.jobs j {HOT_ROWS} WHERE {sql.among('j.id', 1, 'uuid')}"
    rows = (yield Statement(text, (sql.values(found.costs, "uuid"),))) if found.costs else []
    jobs = sorted(map(job_of, rows), key=lambda job: job.id, reverse=True)
    return q.SearchPart(jobs, found.looked_at, found.stopped)


def count_jobs(sql: Dialect, query: q.CountJobs, now: int | None) -> Asking[q.CountPart]:
    found = yield from _found(sql, query.search)
    return q.CountPart(len(found.costs), sum(found.costs.values()), found.looked_at, found.stopped)


def _found(sql: Dialect, query: q.SearchJobs) -> Asking[q.Found]:
    walks = q.walks_of(query.match)
    searched = max(1, query.searched // len(walks))
    parts = []
    for walk in walks:
        parts.append((yield from _walked(sql, query, walk, searched)))
    return q.merged(parts, query.limit)


def _walked(sql: Dialect, query: q.SearchJobs, walk: q.Walk, searched: int) -> Asking[q.Found]:
    match = query.match
    before = min(query.before or _LAST, match.until_id or _LAST)
    since = match.since_id or _FIRST
    source, key = _SOURCES.get(walk.kind, ("ficha.jobs j", "j.id"))
    reach = Select(sql, f"SELECT {sql.read(key, 'uuid')} FROM {source}")
    order = _between(sql, reach, query, walk, since, before)
    rows = yield reach.statement(f"{order} LIMIT 1 OFFSET {searched - 1}")
    floor = rows[0][0] if rows else None
    joined = f" {sql.joined_job(key)}" if walk.kind in _SOURCES else ""
    page = Select(sql, f"SELECT {sql.read(key, 'uuid')}, j.cost FROM {source}{joined}")
    order = _between(sql, page, query, walk, floor or since, before)
    _where_matching(sql, page, query, walk)
    costs = {job_id: cost for job_id, cost in (yield page.statement(order, query.limit))}
    stopped = [*costs][-1] if len(costs) == query.limit else floor
    if stopped is not None and stopped == floor:
        return q.Found(costs, searched, floor)
    counted = Select(sql, f"SELECT count(*) FROM {source}")
    _between(sql, counted, query, walk, stopped or since, before)
    [(looked_at,)] = yield counted.statement()
    return q.Found(costs, looked_at, stopped)


def _between(sql: Dialect, page: Select, query: q.SearchJobs, walk: q.Walk, since: str, before: str) -> str:
    """Limits the page to the walk's jobs from `since` up to `before`; returns the order that its index has."""
    if walk.kind == "id":
        page.where(f"j.id IN ({', '.join(page.given(value, 'uuid') for value in query.match.ids)})")
    if walk.value is None:
        _, key = _SOURCES.get(walk.kind, ("", "j.id"))
        if walk.kind == "dead":
            page.where("j.dead_at IS NOT NULL")
        page.where(f"{key} >= {page.given(since, 'uuid')} AND {key} < {page.given(before, 'uuid')}")
        return f"ORDER BY {key} DESC"
    kind: Kind = "uuid" if walk.kind in ("batch_id", "submitted_by") else "text"
    value, column = page.given(walk.value, kind), f"j.{walk.kind}"
    page.where(f"{column} IS NOT NULL")
    page.where(sql.part_of_index(column, value, "j.id", page.given(since, "uuid"), page.given(before, "uuid")))
    return f"ORDER BY {column} DESC, j.id DESC"


def _where_matching(sql: Dialect, page: Select, query: q.SearchJobs, walk: q.Walk) -> None:
    """Adds the conditions, except those that the walk itself ensures: they would lead PostgreSQL off its index."""
    match = query.match
    for field, column, kind in _LISTS:
        if column != walk.kind and (values := getattr(match, field)):
            page.where(f"j.{column} IN ({', '.join(page.given(value, kind) for value in values)})")
    if statuses := frozenset(match.statuses):
        page.where(_has_status(page, statuses))
    if match.is_dead is not None and walk.kind != "dead":
        page.where(f"j.dead_at IS {'NOT NULL' if match.is_dead else 'NULL'}")
    if match.is_stuck is not None:
        silent = f"l.heartbeat_at < {page.given(query.stuck_before_at, 'instant')}"
        there = f"EXISTS (SELECT 1 FROM ficha.leases l WHERE l.job_id = j.id AND {silent})"
        page.where(there if match.is_stuck else f"NOT {there}")
    for text in match.errors:
        page.where(sql.contains(sql.lowered("j.error"), page.given(text, "text")))


def _has_status(page: Select, statuses: frozenset[str]) -> str:
    """The condition on the status. An active job is always 'queued' in its wide row; if it is held, its lease has its
    status."""
    ways = []
    if ended := sorted(statuses & FINAL):
        ways.append(f"j.status IN ({', '.join(page.given(status, 'text') for status in ended)})")
    if statuses >= ACTIVE:
        ways.append("j.status = 'queued'")
    elif active := sorted(statuses & ACTIVE):
        held = f"coalesce({_HELD}, 'queued') IN ({', '.join(page.given(status, 'text') for status in active)})"
        ways.append(f"j.status = 'queued' AND {held}")
    return f"({' OR '.join(ways)})"


SEARCH_QUESTIONS: Final[Answers] = {
    q.SearchJobs: search_jobs,
    q.CountJobs: count_jobs,
}
