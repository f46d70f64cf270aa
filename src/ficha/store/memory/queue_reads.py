"""The memory store's answers about the queue: pools, workers, what waits and what is due."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ...core.policy import MILLISECOND, SECOND
from ...core.records import (
    HELD,
    Awaiting,
    Job,
    Leased,
    PageSessions,
    Parked,
    Ready,
)
from ...core.recover import over_at
from ...core.suspects import Suspect, is_suspect
from .. import base as q
from ..waiting_columns import Lines
from .job_reads import is_silent

if TYPE_CHECKING:
    from .store import MemoryStore


def _list_pools(store: MemoryStore, query: q.ListPools) -> list[q.PoolCounts]:
    waiting: Counter[tuple[str, type]] = Counter()
    if query.count_waiting:
        waiting.update((job.spec.pool, type(job.place)) for job in store.state.jobs.values())
    return [
        q.PoolCounts(pool, len(store.held[name]), waiting[name, Ready], waiting[name, Parked])
        for name, pool in sorted(store.state.pools.items())
    ]


def _list_workers(store: MemoryStore, query: q.ListWorkers) -> q.WorkerList:
    state, now = store.state, store.clock()
    stuck_at = now - query.stuck_ms * MILLISECOND
    names = sorted(state.workers.keys() | {worker for worker, _ in state.tallies})
    held = defaultdict[str, list[Job]](list)
    for job in state.jobs.values():
        if isinstance(job.place, Leased):
            held[job.place.worker].append(job)
    counts = [
        q.WorkerCounts(
            name,
            state.workers.get(name),
            tuple(tally for (worker, _), tally in sorted(state.tallies.items()) if worker == name),
            running=len(held[name]),
            stuck=sum(is_silent(job, stuck_at) for job in held[name]),
        )
        for name in [name for name in names if query.after is None or name > query.after][: query.limit]
    ]
    return q.WorkerList(now, counts)


def _get_waiting(store: MemoryStore, query: q.GetWaiting) -> q.Waiting:
    return q.Waiting(_lines(store, store.ready), _lines(store, store.parked))


def _lines(store: MemoryStore, lists: Mapping[str, set[str]]) -> Lines:
    lines = Lines()
    for owner, ids in sorted(lists.items()):
        if ids:
            keys = sorted(map(store.claim_order, ids))
            ranks = b"".join(rank.to_bytes(8, "big", signed=True) for rank, _ in keys)
            lines.append([owner], [len(keys)], ranks, b"".join(UUID(job_id).bytes for _, job_id in keys))
    return lines


def _get_due(store: MemoryStore, query: q.GetDue) -> q.Due:
    now, state = store.clock(), store.state
    stuck_at = now - query.stuck_ms * MILLISECOND
    old_at = now - query.max_age_ms * MILLISECOND

    def is_due(job: Job) -> bool:
        waits_too_long = job.started_at is None and job.wait_until_at is not None and job.wait_until_at <= now
        match job.place:
            case Leased() as lease:
                is_old = job.started_at is not None and job.started_at <= old_at
                return over_at(lease) <= now or lease.heartbeat_at <= stuck_at or is_old
            case Awaiting() as outside:
                return over_at(outside) <= now or (job.started_at is not None and job.started_at <= old_at)
            case Parked(due_at=int(due_at), behind=behind):
                held = None if behind is None else state.jobs.get(behind)
                is_free = behind is not None and (held is None or not isinstance(held.place, HELD))
                return due_at <= now or is_free or waits_too_long
            case Ready(ages_at=int(ages_at)):
                return ages_at <= now or waits_too_long
            case Ready() | Parked():
                return waits_too_long
            case _:
                return False

    following: dict[str, int] = {}
    parked = [(job.place, job.spec.pool) for job in state.jobs.values() if isinstance(job.place, Parked)]
    later = sorted((p.due_at, pool) for p, pool in parked if p.due_at and p.due_at > now and p.behind is None)
    for due_at, pool in later[: query.limit]:
        following.setdefault(pool, due_at)
    return q.Due(
        now,
        jobs=[job.id for job in state.jobs.values() if is_due(job)][: query.limit],
        reservations=[
            held.id
            for held in state.reservations.values()
            if held.expires_at <= (now if held.state == "active" else now - query.reservations_kept_ms * MILLISECOND)
        ][: query.limit],
        keys=[name for name, key in state.keys.items() if key.expires_at is not None and key.expires_at <= now][
            : query.limit
        ],
        next=following,
        sessions=[known.account_id for known in state.of(PageSessions).values() if known.next_at <= now][: query.limit],
    )


def _get_stats(store: MemoryStore, query: q.GetStats) -> q.Stats:
    stuck_at = store.clock() - query.stuck_ms * MILLISECOND
    active = [job for job in store.state.jobs.values() if job.place is not None]
    held = [job for job in active if isinstance(job.place, HELD)]
    told = [commit for commit in store.commit_rows if commit.events][-q.COMMITS_AVERAGED :]
    newest = (event for commit in told for event in commit.events)
    completed = [store.state.jobs[event.job_id] for event in newest if event.kind == "completed"]
    runs = [job.finished_at - job.started_at for job in completed if job.finished_at and job.started_at]
    return q.Stats(
        by_status=dict(Counter(job.status for job in active)),
        by_checkpoint=dict(Counter(job.checkpoint.name if job.checkpoint else "" for job in held)),
        stuck=sum(is_silent(job, stuck_at) for job in held),
        dead=sum(job.dead_at is not None for job in store.state.jobs.values()),
        avg_run_s=sum(runs) / len(runs) / SECOND if runs else None,
    )


def _list_suspects(store: MemoryStore, query: q.ListSuspects) -> list[Suspect]:
    ready = [store.state.jobs[key] for pool in query.pools for key in store.ready[pool]]
    found = sorted(filter(is_suspect, ready), key=lambda job: store.claim_order(job.id))
    return [Suspect(job.id, job.spec.pool, job.spec.tool, job.recoveries) for job in found[: query.limit]]


def _get_company(store: MemoryStore, query: q.GetCompany) -> q.Company:
    jobs = store.state.jobs.values()
    held = [job for job in jobs if isinstance(job.place, Leased) and job.place.worker == query.worker]
    return q.Company(len(held), sum(map(is_suspect, held)))


QUEUE_READS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.ListPools: _list_pools,
    q.ListWorkers: _list_workers,
    q.GetWaiting: _get_waiting,
    q.GetDue: _get_due,
    q.GetStats: _get_stats,
    q.ListSuspects: _list_suspects,
    q.GetCompany: _get_company,
}
