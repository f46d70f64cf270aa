"""The memory store's answers about what is removed by age, and about what is left of an account."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...core.erasure import ERASED
from ...core.records import Delivery, Job, KeptJob, RetentionCursor
from ...core.retention import WALK
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _get_retention(store: MemoryStore, query: q.GetRetention) -> q.RetentionPoint:
    now = store.clock()
    due = sorted((kept.look_at, kept.job_id) for kept in store.state.of(KeptJob).values() if kept.look_at <= now)
    cursor = store.state.of(RetentionCursor).get(WALK)
    return q.RetentionPoint(now, cursor, [job_id for _, job_id in due[: query.limit]])


def _list_old_jobs(store: MemoryStore, query: q.ListOldJobs) -> list[Job]:
    def fits(job: Job) -> bool:
        if query.ids is not None:
            return job.id in query.ids
        return (
            (query.after is None or job.id > query.after)
            and (query.before is None or job.id < query.before)
            and query.account_id in (None, job.account_id)
        )

    found = sorted((job for job in store.state.jobs.values() if fits(job)), key=lambda job: job.id)
    part = found if query.ids is not None else found[: query.limit]
    return [replace(q.without_texts(job), place=None) for job in part]


def _list_fuller(store: MemoryStore, query: q.ListFuller) -> list[str]:
    others = {job.batch_id for job in store.state.jobs.values() if job.id not in query.jobs}
    return sorted({*query.batches} & others & store.state.batches.keys())


def _list_account_rows(store: MemoryStore, query: q.ListRowsLeft) -> q.RowsLeft:
    state, mine = store.state, query.account_id
    lines = [entry for entry in state.entries if entry.account_id == mine and entry.number > query.after_number]
    messages = [one.id for one in state.of(Delivery).values() if one.account_id == mine]
    names = [key.id for key in state.api_keys.values() if key.account_id == mine and key.name != ERASED]
    return q.RowsLeft(
        names[: query.limit],
        [(key.scope, key.key) for key in state.keys.values() if key.account_id == mine][: query.limit],
        [held.id for held in state.reservations.values() if held.account_id == mine][: query.limit],
        messages[: query.limit],
        [entry.number for entry in lines if entry.reason is not None][: query.limit],
        [number for number, line in enumerate(state.audit, 1) if line.account_id == mine and line.words][: query.limit],
    )


RETENTION_READS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.GetRetention: _get_retention,
    q.ListOldJobs: _list_old_jobs,
    q.ListFuller: _list_fuller,
    q.ListRowsLeft: _list_account_rows,
}
