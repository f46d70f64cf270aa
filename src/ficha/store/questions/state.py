"""The query for everything that an account has, which `verify` and exports read account by account."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from collections import defaultdict
from typing import Final

from ...core.dataset import State
from ...core.history import history
from ...core.records import Content, Event, Tally
from .. import base as q
from ..keyed.questions import keyed_between
from ..sql import tables as t
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement
from ..sql.jobs import HOT_ROWS, job_columns, job_of
from ..sql.tables import Table
from .pages import list_page
from .workers import TALLY_SUMS


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


STATE_QUESTIONS: Final[Answers] = {
    q.GetState: get_state,
}
