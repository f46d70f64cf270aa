"""The query of an account's library: its finished jobs, newest first."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from typing import Final

from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement
from ..sql.jobs import job_columns, job_of

_NEWEST: Final = "ORDER BY account_id DESC, id DESC"
_LAST: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"
"""No id is greater."""


def list_library(sql: Dialect, query: q.ListLibrary, now: int | None) -> Asking[q.LibraryPart]:
    """Walks back over the account's jobs by their index, and stops when the page is full or enough were looked at."""
    part = Select(sql, "SELECT * FROM ficha.jobs")
    _of_account(part, query)
    walked = part.statement(_NEWEST, query.searched)
    joined = f"FROM ({walked.text}) j LEFT JOIN ficha.checkpoints c ON c.job_id = j.id"
    page = Select(sql, f"SELECT {job_columns(sql, '', texts=False)} {joined}", walked.values)
    page.where("j.status = 'completed' AND j.removed_at IS NULL")
    page.matches("j.tool", "=", query.tool)
    page.matches("j.created_at", ">=", query.since_at, "instant")
    page.matches("j.created_at", "<", query.until_at, "instant")
    if query.search is not None:
        payload = f"lower({sql.read('j.payload', 'json')})"
        page.where(sql.contains(payload, f"lower({page.given(query.search, 'text')})"))
    jobs = [*map(job_of, (yield page.statement("ORDER BY j.account_id DESC, j.id DESC", query.limit)))]
    if len(jobs) == query.limit:
        return q.LibraryPart(jobs, (jobs[-1].id, jobs[-1].created_at))
    last = (
        f"SELECT count(*) OVER (), {sql.read('id', 'uuid')}, {sql.read('created_at', 'instant')} FROM ({walked.text}) j"
    )
    rows = yield Statement(f"{last} ORDER BY j.id LIMIT 1", walked.values)
    is_end = not rows or rows[0][0] < query.searched
    return q.LibraryPart(jobs, None if is_end else (rows[0][1], rows[0][2]))


def _of_account(page: Select, query: q.ListLibrary) -> None:
    """Limits the page to the account's jobs before `query.before`, as a range of their index. With a plain `=`,
    PostgreSQL may consider any index in the order of ids as good, and walk over the jobs of all accounts."""
    account, before = page.given(query.account_id, "text"), page.given(query.before or _LAST, "uuid")
    page.where(f"account_id >= {account} AND (account_id, id) < ({account}, {before})")


LIBRARY_QUESTIONS: Final[Answers] = {q.ListLibrary: list_library}
