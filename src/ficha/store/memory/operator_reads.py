"""The queries of an operator's pages, answered by walking the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...core.quota import state_of
from ...core.records import Entry, Event, Leased, Ready, ReservationState
from ...core.runs import TELL_OF_RUNS
from ...core.split_requests import latest_tries
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _list_audit(store: MemoryStore, query: q.ListAudit) -> list[q.NumberedLine]:
    found = [
        q.NumberedLine(number, line)
        for number, line in enumerate(store.state.audit, 1)
        if (query.before_number is None or number < query.before_number)
        and query.target in (None, line.target)
        and query.actor in (None, line.actor)
    ]
    return found[::-1][: query.limit]


def _list_batches(store: MemoryStore, query: q.ListBatches) -> q.BatchPart:
    found = [
        batch
        for batch in store.state.batches.values()
        if query.account_id in (None, batch.account_id) and (query.before is None or batch.id < query.before)
    ]
    newest = sorted(found, key=lambda batch: batch.id, reverse=True)[: query.limit]
    jobs = latest_tries(job for job in store.state.jobs.values() if job.batch_id is not None)
    counts = Counter((job.batch_id, job.status) for job in jobs)
    batches = [
        q.BatchCounts(batch, {status: jobs for (owner, status), jobs in counts.items() if owner == batch.id})
        for batch in q.countable(newest, query.counted)
    ]
    return q.BatchPart(batches, len(newest) == query.limit or len(batches) < len(newest))


def _sum_dead_letters(store: MemoryStore, query: q.SumDeadLetters) -> list[q.DeadSum]:
    dead = [(job.id, job, job.dead_at) for job in store.state.jobs.values() if job.dead_at is not None]
    sums: dict[tuple[str, str], q.DeadSum] = {}
    for job_id, job, at in sorted(dead, key=lambda one: one[0])[-query.searched :]:
        name = job.spec.tool, (job.error or "")[: query.error_length]
        before = sums.get(name, q.DeadSum(*name, 0, 0, at, at, job_id))
        first_at, last_at = min(before.first_dead_at, at), max(before.last_dead_at, at)
        sums[name] = q.DeadSum(*name, before.jobs + 1, before.credits + job.spec.cost, first_at, last_at, job_id)
    return [*sums.values()]


def _list_run_events(store: MemoryStore, query: q.ListRunEvents) -> list[Event]:
    kept = (event for event in store.history.get(query.job_id, ()) if event.kind in TELL_OF_RUNS)
    return [*kept][: query.limit]


def _get_queue_depth(store: MemoryStore, query: q.GetQueueDepth) -> q.QueueDepth | None:
    pool = store.state.pools.get(query.pool)
    if pool is None:
        return None
    places = [type(job.place) for job in store.state.jobs.values() if job.spec.pool == query.pool]
    ready = min(places.count(Ready), query.count_up_to)
    return q.QueueDepth(pool, len(store.held[query.pool]), places.count(Leased), ready)


def _count_checkpoints(store: MemoryStore, query: q.CountCheckpoints) -> dict[str, int]:
    active = [job for job in store.state.jobs.values() if job.batch_id == query.batch_id and job.place is not None]
    return dict(Counter("" if job.checkpoint is None else job.checkpoint.name for job in active))


def _count_reservations(store: MemoryStore, query: q.CountReservations) -> dict[ReservationState, int]:
    held = [one for one in store.state.reservations.values() if query.account_id in (None, one.account_id)]
    return dict(Counter(state_of(one, query.at) for one in held))


def _list_job_entries(store: MemoryStore, query: q.ListJobEntries) -> list[Entry]:
    return [entry for entry in store.state.entries if entry.job_id == query.job_id]


OPERATOR_READS: Final[dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]]] = {
    q.ListAudit: _list_audit,
    q.ListBatches: _list_batches,
    q.CountCheckpoints: _count_checkpoints,
    q.CountReservations: _count_reservations,
    q.SumDeadLetters: _sum_dead_letters,
    q.ListRunEvents: _list_run_events,
    q.ListJobEntries: _list_job_entries,
    q.GetQueueDepth: _get_queue_depth,
}
