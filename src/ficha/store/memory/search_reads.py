"""Searches among all jobs, answered by walking the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...core.records import Awaiting, Job, Leased, Parked, Ready
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore

_PLACES: Final[dict[str, tuple[type, ...]]] = {"leases": (Leased, Awaiting), "ready": (Ready,), "parked": (Parked,)}


def _search_jobs(store: MemoryStore, query: q.SearchJobs) -> q.SearchPart:
    found = _found(store, query)
    jobs = [q.without_texts(store.state.jobs[job_id]) for job_id in found.costs]
    return q.SearchPart(jobs, found.looked_at, found.stopped)


def _count_jobs(store: MemoryStore, query: q.CountJobs) -> q.CountPart:
    found = _found(store, query.search)
    return q.CountPart(len(found.costs), sum(found.costs.values()), found.looked_at, found.stopped)


def _found(store: MemoryStore, query: q.SearchJobs) -> q.Found:
    walks = q.walks_of(query.match)
    searched = max(1, query.searched // len(walks))
    return q.merged([_walked(store, query, walk, searched) for walk in walks], query.limit)


def _walked(store: MemoryStore, query: q.SearchJobs, walk: q.Walk, searched: int) -> q.Found:
    match = query.match
    bounds = [bound for bound in (query.before, match.until_id) if bound is not None]
    theirs = [
        job
        for job in store.state.jobs.values()
        if all(job.id < bound for bound in bounds)
        and (match.since_id is None or job.id >= match.since_id)
        and _is_on(walk, match, job)
    ]
    walked = sorted(theirs, key=lambda job: job.id, reverse=True)[:searched]
    found: dict[str, int] = {}
    for looked_at, job in enumerate(walked, 1):
        if _matches(query, job):
            found[job.id] = job.spec.cost
            if len(found) == query.limit:
                return q.Found(found, looked_at, job.id)
    return q.Found(found, len(walked), walked[-1].id if len(walked) == searched else None)


def _is_on(walk: q.Walk, match: q.JobMatch, job: Job) -> bool:
    match walk.kind:
        case "all":
            return True
        case "id":
            return job.id in match.ids
        case "dead":
            return job.dead_at is not None
        case "leases" | "ready" | "parked":
            return isinstance(job.place, _PLACES[walk.kind])
        case "session" | "correlation_id":
            return bool(getattr(job.spec, walk.kind) == walk.value)
        case _:
            return bool(getattr(job, walk.kind) == walk.value)


def _matches(query: q.SearchJobs, job: Job) -> bool:
    match, spec = query.match, job.spec
    is_silent = isinstance(job.place, Leased) and job.place.heartbeat_at < query.stuck_before_at
    error = None if job.error is None else q.lowered(job.error)
    return (
        (not match.accounts or job.account_id in match.accounts)
        and (not match.tools or spec.tool in match.tools)
        and (not match.pools or spec.pool in match.pools)
        and (not match.plans or job.plan in match.plans)
        and (not match.statuses or job.status in match.statuses)
        and (not match.sessions or spec.session in match.sessions)
        and (not match.batches or job.batch_id in match.batches)
        and (not match.correlation_ids or spec.correlation_id in match.correlation_ids)
        and (not match.keys or job.submitted_by in match.keys)
        and match.is_dead in (None, job.dead_at is not None)
        and match.is_stuck in (None, is_silent)
        and all(error is not None and text in error for text in match.errors)
    )


SEARCH_READS: Final[dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]]] = {
    q.SearchJobs: _search_jobs,
    q.CountJobs: _count_jobs,
}
