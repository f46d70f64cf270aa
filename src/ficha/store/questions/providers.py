"""The queries about external providers: how each stands, which jobs to poll it for, and what was earned and paid for
its work."""

from __future__ import annotations

from typing import Final

from ...core.policy import MILLISECOND
from .. import base as q
from ..keyed.tables import KEYED
from ..sql.dialect import Answers, Asking, Dialect, Statement, sql_file

_STATES: Final = KEYED["ProviderState"]
_OUTAGES: Final = KEYED["ProviderOutage"]


def list_providers(sql: Dialect, query: q.ListProviders, now: int | None) -> Asking[list[q.ProviderRow]]:
    words = {"state": sql.selected(_STATES, "s"), "outage": sql.selected(_OUTAGES, "o"), "moment": sql.moment}
    text = sql_file(__package__, "providers").format(
        **words, at=sql.read("m.at", "instant"), limit=sql.parameter(4, "number")
    )
    width = len(_STATES.columns)
    return [
        q.ProviderRow(
            name,
            at,
            None if found[0] is None else _STATES.record(found[:width]),
            None if found[width] is None else _OUTAGES.record(found[width:]),
        )
        for name, at, *found in (yield Statement(text, (now, 0, 0, query.limit, 0)))
    ]


def get_margins(sql: Dialect, query: q.GetMargins, _now: int | None) -> Asking[list[q.MarginLine]]:
    words = {"created_at": sql.read("created_at", "instant"), "limit": sql.parameter(3, "number")}
    since, until = (sql.parameter(number, "instant") for number in (1, 2))
    text = sql_file(__package__, "margins").format(**words, since=since, until=until)
    given = (sql.value(query.since_at, "instant"), sql.value(query.until_at, "instant"), query.limit)
    return [q.MarginLine(*row) for row in (yield Statement(text, given))]


def list_polls(sql: Dialect, query: q.ListPolls, now: int | None) -> Asking[list[q.DuePoll]]:
    words = {"job_id": sql.read("l.job_id", "uuid"), "poll_at": sql.read("l.poll_at", "instant"), "moment": sql.moment}
    words |= {"at": sql.read("m.at", "instant"), "tool": sql.among("j.tool", 4, "text")}
    text = sql_file(__package__, "polls").format(**words, limit=sql.parameter(5, "number"))
    rows = yield Statement(text, (now, 0, 0, sql.values(query.tools, "text"), query.limit))
    return [q.DuePoll(job_id, max(0, -(-(poll_at - at) // MILLISECOND))) for job_id, poll_at, at in rows]


PROVIDER_QUESTIONS: Final[Answers] = {
    q.ListProviders: list_providers,
    q.GetMargins: get_margins,
    q.ListPolls: list_polls,
}
