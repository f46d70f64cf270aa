"""The memory store's answers about the sessions of pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.records import WAITING, PageSessions
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _get_page_sessions(store: MemoryStore, query: q.GetPageSessions) -> PageSessions | None:
    return store.state.of(PageSessions).get(query.account_id)


def _list_session_jobs(store: MemoryStore, query: q.ListSessionJobs) -> list[str]:
    found = [
        job.id
        for job in store.state.jobs.values()
        if (job.account_id, job.spec.session) == (query.account_id, query.session) and isinstance(job.place, WAITING)
    ]
    return sorted(found)[: query.limit]


SESSION_READS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.GetPageSessions: _get_page_sessions,
    q.ListSessionJobs: _list_session_jobs,
}
