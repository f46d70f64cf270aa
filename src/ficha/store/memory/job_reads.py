"""The memory store's answers about jobs and what belongs to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.dataset import State
from ...core.history import history
from ...core.library import is_in_library
from ...core.records import (
    Event,
    Job,
    JobSpec,
    Leased,
    Step,
)
from ...core.split_requests import latest_tries
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _row(state: State, job: Job) -> q.JobRow:
    return q.JobRow(job, state.payloads[job.id], state.results.get(job.id))


def _get_jobs(store: MemoryStore, query: q.GetJobs) -> list[q.JobRow]:
    return [_row(store.state, store.state.jobs[key]) for key in dict.fromkeys(query.ids) if key in store.state.jobs]


def _get_parts(store: MemoryStore, query: q.GetParts) -> list[q.JobRow]:
    return [_row(store.state, job) for job in store.state.jobs.values() if job.spec.part_of == query.request_id]


def _list_jobs(store: MemoryStore, query: q.ListJobs) -> list[Job]:
    def fits(job: Job) -> bool:
        return (
            (query.before is None or job.id < query.before)
            and query.account_id in (None, job.account_id)
            and (not query.statuses or job.status in query.statuses)
            and all(getattr(query, name) in (None, _field(job, name)) for name in q.LISTED_BY)
            and (not query.dead or job.dead_at is not None)
            and (query.stuck_before_at is None or is_silent(job, query.stuck_before_at))
        )

    found = sorted((job for job in store.state.jobs.values() if fits(job)), key=lambda job: job.id, reverse=True)
    return [q.without_texts(job) for job in found[: query.limit]]


def _field(job: Job, name: str) -> Any:
    """A job's field, also one of its spec."""
    return getattr(job.spec, name) if name in JobSpec.__struct_fields__ else getattr(job, name)


def _list_library(store: MemoryStore, query: q.ListLibrary) -> q.LibraryPart:
    mine = [job for job in store.state.jobs.values() if job.account_id == query.account_id]
    older = sorted(
        (job for job in mine if query.before is None or job.id < query.before), key=lambda job: job.id, reverse=True
    )
    searched = older[: query.searched]

    def fits(job: Job) -> bool:
        return (
            is_in_library(job)
            and query.tool in (None, job.spec.tool)
            and (query.since_at is None or job.created_at >= query.since_at)
            and (query.until_at is None or job.created_at < query.until_at)
            and (query.search is None or query.search.lower() in store.state.payloads[job.id].lower())
        )

    found = [q.without_texts(job) for job in searched if fits(job)][: query.limit]
    if len(found) == query.limit:
        return q.LibraryPart(found, (found[-1].id, found[-1].created_at))
    last = searched[-1] if len(searched) == query.searched else None
    return q.LibraryPart(found, None if last is None else (last.id, last.created_at))


def is_silent(job: Job, before_at: int) -> bool:
    return isinstance(job.place, Leased) and job.place.heartbeat_at < before_at


def _get_history(store: MemoryStore, query: q.GetHistory) -> list[Event]:
    return job_history(store, query.job_id)[query.after :][: query.limit]


def job_history(store: MemoryStore, job_id: str) -> list[Event]:
    job = store.state.jobs.get(job_id)
    return [] if job is None else history(job, store.history.get(job_id, ()))


def _list_job_events(store: MemoryStore, query: q.ListJobEvents) -> list[Event]:
    return [event for event in store.history.get(query.job_id, ()) if event.kind == query.kind]


def _list_steps(store: MemoryStore, query: q.ListSteps) -> list[Step]:
    return [step for step in store.state.steps.values() if step.job_id == query.job_id]


def _get_batch(store: MemoryStore, query: q.GetBatch) -> q.BatchCounts | None:
    batch = store.state.batches.get(query.batch_id)
    if batch is None:
        return None
    jobs = (job for job in store.state.jobs.values() if job.batch_id == batch.id)
    counts = Counter(job.status for job in latest_tries(jobs))
    return q.BatchCounts(batch, dict(counts))


JOB_READS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.GetJobs: _get_jobs,
    q.GetParts: _get_parts,
    q.ListJobs: _list_jobs,
    q.ListLibrary: _list_library,
    q.GetHistory: _get_history,
    q.ListJobEvents: _list_job_events,
    q.ListSteps: _list_steps,
    q.GetBatch: _get_batch,
}
