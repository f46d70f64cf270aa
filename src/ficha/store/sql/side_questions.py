"""The queries about what stands beside the queue, such as jobs that are with an external provider."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ...core.policy import MILLISECOND
from .. import base as q
from .dialect import Asking, Dialect, Statement, sql_file

Answer = Callable[[Dialect, Any, int | None], Asking[Any]]
"""The last argument is the time; None for the database's clock."""
_text: Final = partial(sql_file, __package__)


def list_polls(sql: Dialect, query: q.ListPolls, now: int | None) -> Asking[list[q.DuePoll]]:
    words = {"job_id": sql.read("l.job_id", "uuid"), "poll_at": sql.read("l.poll_at", "instant"), "moment": sql.moment}
    words |= {"at": sql.read("m.at", "instant"), "tool": sql.among("j.tool", 4, "text")}
    text = _text("polls").format(**words, limit=sql.parameter(5, "number"))
    rows = yield Statement(text, (now, 0, 0, sql.values(query.tools, "text"), query.limit))
    return [q.DuePoll(job_id, max(0, -(-(poll_at - at) // MILLISECOND))) for job_id, poll_at, at in rows]


SIDE_QUESTIONS: Final[dict[type[q.Query[Any]], Answer]] = {q.ListPolls: list_polls}
