"""The queries whose SQL is the same in every database but for its dialect; a page of one table is a line of `PAGES`."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any, Final

from ...core.dataset import State
from ...core.history import history, history_page
from ...core.policy import MILLISECOND, SECOND
from ...core.records import Account, Content, Event, Tally
from .. import base as q
from ..commits import account_mark, decoded
from ..figure_questions import FIGURE_QUESTIONS, SEVERAL_FIGURES
from ..keyed.questions import KEYED_QUESTIONS, keyed_between
from ..operator_questions import OPERATOR_QUESTIONS
from ..provider_questions import PROVIDER_QUESTIONS
from ..retention_questions import RETENTION_QUESTIONS, SEVERAL_RETENTION
from ..search_questions import SEARCH_QUESTIONS
from . import tables as t
from .dialect import Asking, Dialect, Select, Statement, sql_file
from .jobs import HOT_ROWS, JOB_WIDTH, job_columns, job_of
from .side_questions import SEVERAL_SIDE, SIDE_QUESTIONS, Answer
from .tables import Kind, Table

PAGES: Final[dict[type[q.Query[Any]], tuple[Table, str, tuple[tuple[str, str, str], ...]]]] = {
    q.GetAccount: (t.ACCOUNTS, "id", (("id", "=", "account_id"),)),
    q.ListAccounts: (t.ACCOUNTS, "id", (("id", ">", "after"), ("id", ">=", "prefix"), ("id", "<", "prefix_end"))),
    q.ListSteps: (t.STEPS, "{insertion_order}", (("job_id", "=", "job_id"),)),
    q.ListAccepted: (t.EVENTS, "at DESC, t.job_id DESC", (("data ->> 'ref'", "=", "ref"),)),
    q.ListJobEvents: (t.EVENTS, "number", (("job_id", "=", "job_id"), ("kind", "=", "kind"))),
    q.ListEntries: (t.ENTRIES, "number DESC", (("account_id", "=", "account_id"), ("number", "<", "before_number"))),
    q.ListJobEntries: (t.ENTRIES, "number", (("job_id", "=", "job_id"),)),
}
"""Queries that list records of a table: the table, the order, and conditions (column, operator, field of the query)."""
_text: Final = partial(sql_file, __package__)
TALLY_SUMS: Final = _text("tally_sums")


def _page(sql: Dialect, table: Table, more: str = "") -> Select:
    return Select(sql, f"SELECT {more}{sql.selected(table, 't')} FROM ficha.{table.name} t")


def list_page(sql: Dialect, query: q.Query[Any], now: int | None) -> Asking[list[Any]]:
    table, order, conditions = PAGES[type(query)]
    page = _page(sql, table)
    for column, operator, name in conditions:
        page.matches(f"t.{column}", operator, getattr(query, name), table.kind(column))
    tail = f"ORDER BY t.{order.format(insertion_order=sql.insertion_order)}"
    return [*map(table.record, (yield page.statement(tail, getattr(query, "limit", None))))]


def get_account(sql: Dialect, query: q.GetAccount, now: int | None) -> Asking[Account | None]:
    return next(iter((yield from list_page(sql, query, now))), None)


def get_jobs(sql: Dialect, query: q.GetJobs, now: int | None) -> Asking[list[q.JobRow]]:
    texts = f"{sql.read('j.payload', 'json')}, {sql.read('j.result', 'json')}"
    text = f"SELECT {job_columns(sql)}, {texts} FROM ficha.jobs j {HOT_ROWS} WHERE {sql.among('j.id', 1, 'uuid')}"
    rows = yield Statement(text, (sql.values({*query.ids}, "uuid"),))
    return [q.JobRow(job_of(row), row[JOB_WIDTH], row[JOB_WIDTH + 1]) for row in rows]


def get_history(sql: Dialect, query: q.GetHistory, now: int | None) -> Asking[list[Event]]:
    found = {"job": job_columns(sql), "event": sql.selected(t.EVENTS, "e"), "hot_rows": HOT_ROWS}
    kinds: tuple[tuple[str, Kind], ...] = (("job_id", "uuid"), ("after", "number"), ("limit", "number"))
    asked = {name: sql.parameter(number, kind) for number, (name, kind) in enumerate(kinds, 1)}
    text = _text("history").format(**found, **asked)
    rows = yield Statement(text, (sql.value(query.job_id, "uuid"), query.after, query.limit))
    if not rows:
        return []
    kept = [t.EVENTS.record(row[JOB_WIDTH + 1 :]) for row in rows if row[JOB_WIDTH + 1] is not None]
    return history_page(job_of(rows[0]), kept, rows[0][JOB_WIDTH], query.after, query.limit)


def list_commits(sql: Dialect, query: q.ListCommits, now: int | None) -> Asking[list[q.Commit]]:
    page = Select(sql, f"SELECT number, {sql.read('at', 'instant')}, events FROM ficha.commits")
    page.matches("number", ">", query.after, "number")
    if query.telling_of is not None:
        page.where(sql.contains("events", page.given(account_mark(query.telling_of), "text")))
    rows = yield page.statement("ORDER BY number", query.limit)
    return [q.Commit(number, decoded(text, at)) for number, at, text in rows]


def get_first_searched(sql: Dialect, query: q.GetFirstSearched, now: int | None) -> Asking[int]:
    rows = yield Statement(_text("first_searched").format(most=sql.parameter(1, "number")), (q.EVENTS_SEARCHED,))
    return rows[0][0] if rows else 0


def list_keys(sql: Dialect, query: q.ListKeys, now: int | None) -> Asking[list[Any]]:
    page = _page(sql, t.KEYS)
    page.matches("t.account_id", "=", query.account_id)
    page.matches("t.key", "=", query.key)
    if query.after is not None:
        after = ", ".join(page.given(value, "text") for value in query.after)
        page.where(f"(t.account_id, t.key, t.scope) > ({after})")
    return [*map(t.KEYS.record, (yield page.statement("ORDER BY t.account_id, t.key, t.scope", query.limit)))]


def list_hooks(sql: Dialect, query: q.ListHooks, now: int | None) -> Asking[list[Any]]:
    words = {"hook": sql.selected(t.HOOKS, "t"), "named": sql.among("t.name", 4, "text"), "moment": sql.moment}
    asked = {"any_name": str(not query.names), "any_time": str(not query.is_due), "limit": sql.parameter(5, "number")}
    text = _text("hooks").format(**words, **asked)
    return [*map(t.HOOKS.record, (yield Statement(text, (now, 0, 0, sql.values(query.names, "text"), query.limit))))]


def get_batch(sql: Dialect, query: q.GetBatch, now: int | None) -> Asking[q.BatchCounts | None]:
    status = "coalesce(l.status, j.status)"
    source = "ficha.batches b LEFT JOIN ficha.jobs j ON j.batch_id = b.id LEFT JOIN ficha.leases l ON l.job_id = j.id"
    page = Select(sql, f"SELECT {status}, count(j.id), {sql.selected(t.BATCHES, 'b')} FROM {source}")
    page.matches("b.id", "=", query.batch_id, "uuid")
    rows = yield page.statement(f"GROUP BY b.id, {status}")
    if not rows:
        return None
    return q.BatchCounts(t.BATCHES.record(rows[0][2:]), {row[0]: row[1] for row in rows if row[1]})


def list_pools(sql: Dialect, query: q.ListPools, now: int | None) -> Asking[list[q.PoolCounts]]:
    busy = _page(sql, t.POOLS, "(SELECT count(*) FROM ficha.leases l WHERE l.pool = t.name), 0, 0, ")
    counted = Statement(_text("pools").format(pool=sql.selected(t.POOLS, "t")))
    rows = yield counted if query.count_waiting else busy.statement("ORDER BY t.name")
    return [q.PoolCounts(t.POOLS.record(row[3:]), *row[:3]) for row in rows]


def get_api_key(sql: Dialect, query: q.GetApiKey, now: int | None) -> Asking[q.ApiKeyList]:
    if query.key_id is not None:
        return (yield from _api_keys(sql, now, ("id", "=", query.key_id, "uuid"), 1))
    return (yield from _api_keys(sql, now, ("digest", "=", query.digest, "text"), 1))


def list_api_keys(sql: Dialect, query: q.ListApiKeys, now: int | None) -> Asking[q.ApiKeyList]:
    return (yield from _api_keys(sql, now, ("id", "<", query.before, "uuid"), query.limit))


def get_revoked_api_keys(sql: Dialect, query: q.GetRevokedApiKeys, now: int | None) -> Asking[list[str]]:
    text = f"SELECT {sql.read('id', 'uuid')} FROM ficha.api_keys WHERE revoked_at IS NOT NULL AND "
    rows = yield Statement(text + sql.among("id", 1, "uuid"), (sql.values({*query.ids}, "uuid"),))
    return [row[0] for row in rows]


def _api_keys(sql: Dialect, now: int | None, condition: tuple[str, str, Any, Kind], limit: int) -> Asking[q.ApiKeyList]:
    page = Select(sql, "SELECT * FROM ficha.api_keys")
    names = {"now": page.given(now, "number"), "clock": sql.clock, "used_at": sql.read("u.at", "instant")}
    page.matches(*condition)
    keys = page.statement("ORDER BY id DESC", limit)
    text = _text("api_keys").format(**names, key=sql.selected(t.API_KEYS, "k"), keys=keys.text)
    rows = yield Statement(text, keys.values)
    found = [q.ApiKeyRow(t.API_KEYS.record(key), used_at) for _, used_at, *key in rows if key[0] is not None]
    return q.ApiKeyList(rows[0][0], found)


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


def get_state(sql: Dialect, query: q.GetState, now: int | None) -> Asking[State]:
    """Reads a page of accounts, then every row whose account id lies between the first and the last of them."""
    accounts = yield from list_page(sql, q.ListAccounts(query.after, query.limit), now)
    after = query.after or ""
    last = accounts[-1].id if accounts else after

    def theirs(text: str, owner: str, tail: str = "", or_nobodys: str = "") -> Statement:
        page = Select(sql, text)
        first, beyond = page.given(after, "text"), page.given(last, "text")
        page.where(f"({or_nobodys}{owner} > {first} AND {owner} <= {beyond})")
        return page.statement(tail)

    def whole(table: Table) -> str:
        return f"SELECT {sql.selected(table, 't')} FROM ficha.{table.name} t"

    state = State(accounts={account.id: account for account in accounts})
    jobs = yield theirs(f"SELECT {job_columns(sql)} FROM ficha.jobs j {HOT_ROWS}", "j.account_id", "ORDER BY j.id")
    state.jobs = {row[0]: job_of(row) for row in jobs}
    keys = yield theirs(whole(t.KEYS), "t.account_id")
    state.keys = {(row[0], row[1], row[2]): t.KEYS.record(row) for row in keys}
    for table, found in ((t.RESERVATIONS, state.reservations), (t.BATCHES, state.batches)):
        rows = yield theirs(whole(table), "t.account_id")
        found.update({row[0]: table.record(row) for row in rows})
    joined = " JOIN ficha.jobs j ON j.id = t.job_id"
    content = f"SELECT t.tool, t.content_hash, {sql.read('t.job_id', 'uuid')}, {sql.read('j.result', 'json')}"
    contents = yield theirs(f"{content} FROM ficha.contents t{joined}", "j.account_id")
    state.contents = {(row[0], row[1]): Content(*row) for row in contents}
    entries = yield theirs(whole(t.ENTRIES), "t.account_id", "ORDER BY t.account_id, t.number")
    state.entries = [*map(t.ENTRIES.record, entries)]
    api_keys = yield theirs(whole(t.API_KEYS), "t.account_id", or_nobodys="t.account_id IS NULL OR ")
    state.api_keys = {row[0]: t.API_KEYS.record(row) for row in api_keys}
    used = f"{whole(t.API_KEY_USES)} JOIN ficha.api_keys k ON k.id = t.key_id"
    uses = yield theirs(used, "k.account_id", or_nobodys="k.account_id IS NULL OR ")
    state.api_key_uses = {row[0]: t.API_KEY_USES.record(row) for row in uses}
    hooks = yield theirs(whole(t.HOOKS) + joined, "j.account_id")
    state.hooks = {(row[0], row[1]): t.HOOKS.record(row) for row in hooks}
    for table, shared in ((t.POOLS, state.pools), (t.WORKERS, state.workers)):
        shared.update({row[0]: table.record(row) for row in (yield Statement(whole(table)))})
    state.keyed = yield from keyed_between(sql, after, last)
    state.tallies = {(row[0], row[1]): Tally(*row) for row in (yield Statement(TALLY_SUMS))}
    if not query.texts:
        return state
    columns = f"{sql.read('id', 'uuid')}, {sql.read('payload', 'json')}, {sql.read('result', 'json')}"
    texts = yield theirs(f"SELECT {columns} FROM ficha.jobs", "account_id")
    state.payloads = {job_id: payload for job_id, payload, _ in texts}
    state.results = {job_id: result for job_id, _, result in texts if result is not None}
    steps = yield theirs(whole(t.STEPS) + joined, "j.account_id", f"ORDER BY t.{sql.insertion_order}")
    state.steps = {(row[0], row[1]): t.STEPS.record(row) for row in steps}
    kept: dict[str, list[Event]] = defaultdict(list)
    for row in (yield theirs(whole(t.EVENTS) + joined, "j.account_id", "ORDER BY t.job_id, t.number")):
        kept[row[0]].append(t.EVENTS.record(row))
    state.events = [event for job in state.jobs.values() for event in history(job, kept.get(job.id, ()))]
    return state


QUESTIONS: Final[dict[type[q.Query[Any]], Answer]] = {
    **(dict.fromkeys(PAGES, list_page) | KEYED_QUESTIONS),
    q.GetAccount: get_account,
    q.GetJobs: get_jobs,
    q.GetHistory: get_history,
    q.ListCommits: list_commits,
    q.GetFirstSearched: get_first_searched,
    q.ListKeys: list_keys,
    q.ListHooks: list_hooks,
    q.GetBatch: get_batch,
    q.ListPools: list_pools,
    q.GetApiKey: get_api_key,
    q.ListApiKeys: list_api_keys,
    q.GetRevokedApiKeys: get_revoked_api_keys,
    q.GetDue: get_due,
    q.GetStats: get_stats,
    q.GetState: get_state,
    **SIDE_QUESTIONS,
    **(OPERATOR_QUESTIONS | PROVIDER_QUESTIONS | SEARCH_QUESTIONS | FIGURE_QUESTIONS | RETENTION_QUESTIONS),
}
SEVERAL: Final[frozenset[type[q.Query[Any]]]] = frozenset(
    {*SEVERAL_SIDE, *SEVERAL_FIGURES, *SEVERAL_RETENTION, *SEARCH_QUESTIONS, q.GetStats, q.GetState, q.ListBatches}
)
"""Queries of several statements: they need a transaction to be answered in one view."""
