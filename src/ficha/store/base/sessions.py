"""Questions about the sessions of pages."""

from __future__ import annotations

from ...core.records import PageSessions
from .query import Query


class GetPageSessions(Query[PageSessions | None], frozen=True):
    """The sessions of an account that said that they are open, or were left; None if there are none."""

    account_id: str


class ListSessionJobs(Query[list[str]], frozen=True):
    """The ids of an account's queued jobs of a session, by id."""

    account_id: str
    session: str
    limit: int = 50
