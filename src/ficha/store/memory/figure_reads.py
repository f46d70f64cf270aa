"""The memory store's answers about figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...core.figures import CURSOR, TOTAL, rollup_key
from ...core.policy import MILLISECOND, TIME_BITS
from ...core.records import HELD, Delivery, FigureCursor, Job, Leased, Parked, QueueCount, Ready, Rollup, Worker
from ...core.recover import over_at
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _list_figures(store: MemoryStore, query: q.ListFigures) -> list[q.CommitFigures]:
    found = [
        q.CommitFigures(commit.number, commit.at, commit.figures)
        for commit in store.commit_rows
        if commit.figures is not None
        and (commit.number in query.among if query.among else query.after < commit.number <= query.last)
    ]
    return found if query.among else found[: query.limit]


def _get_figure_point(store: MemoryStore, query: q.GetFigurePoint) -> q.FigurePoint:
    first, last = (store.commit_rows[end].number if store.commit_rows else 0 for end in (0, -1))
    return q.FigurePoint(store.clock(), store.state.of(FigureCursor).get(CURSOR), first, last)


def _list_rollups(store: MemoryStore, query: q.ListRollups) -> list[Rollup]:
    first, last = rollup_key(query.level, query.since_at), f"{query.level} ~"
    return [rollup for key, rollup in sorted(store.state.of(Rollup).items()) if first <= key < last]


def _get_total(store: MemoryStore, query: q.GetTotal) -> Rollup | None:
    return store.state.of(Rollup).get(TOTAL)


def _list_old_rollups(store: MemoryStore, query: q.ListOldRollups) -> list[str]:
    first, last = f"{query.level} ", rollup_key(query.level, query.before_at)
    return [key for key in sorted(store.state.of(Rollup)) if first <= key < last][: query.limit]


def _get_queue_counts(store: MemoryStore, query: q.GetQueueCounts) -> q.QueueCounts:
    counts = Counter(
        (job.plan, job.spec.tool, job.spec.pool, type(job.place) is Ready)
        for job in store.state.jobs.values()
        if job.status == "queued"
    )
    names = sorted({name[:3] for name in counts})
    ahead = _list_figures(store, q.ListFigures(query.after, limit=query.limit))
    if query.left_out:
        ahead += _list_figures(store, q.ListFigures(among=query.left_out))
    return q.QueueCounts([QueueCount(*name, counts[*name, True], counts[*name, False]) for name in names], ahead)


def _get_alert_counts(store: MemoryStore, query: q.GetAlertCounts) -> q.AlertCounts:
    now, state = store.clock(), store.state
    late_at = now - query.late_ms * MILLISECOND
    stuck = sum(_is_overdue(job, now, now - query.stuck_ms * MILLISECOND) for job in state.jobs.values())
    dead = sum(job.dead_at is not None for job in state.jobs.values())
    messages = sum(one.state == "pending" and one.due_at <= late_at for one in state.of(Delivery).values())
    hooks = sum(hook.due_at <= late_at for hook in state.hooks.values())
    return q.AlertCounts(stuck, *(min(count, query.limit) for count in (dead, messages, hooks)))


def _get_backlog(store: MemoryStore, query: q.GetBacklog) -> q.Backlog:
    now, state = store.clock(), store.state
    ends = [end for job in state.jobs.values() if isinstance(job.place, HELD) and (end := over_at(job.place)) <= now]
    due = [
        job.place.due_at
        for job in state.jobs.values()
        if isinstance(job.place, Parked) and job.place.due_at is not None and job.place.due_at <= now
    ]
    messages = [one.due_at for one in state.of(Delivery).values() if one.state == "pending"]
    hooks = [hook.due_at for hook in state.hooks.values()]
    return q.Backlog(
        now,
        len(ends),
        min(ends + due, default=None),
        min(len(messages), query.limit),
        min(messages, default=None),
        min(len(hooks), query.limit),
        min(hooks, default=None),
    )


def _is_overdue(job: Job, now: int, stuck_at: int) -> bool:
    place = job.place
    if not isinstance(place, HELD):
        return False
    return over_at(place) <= now or (isinstance(place, Leased) and place.heartbeat_at <= stuck_at)


def _list_pool_times(store: MemoryStore, query: q.ListPoolTimes) -> list[q.PoolTimes]:
    heads: dict[tuple[str, int], tuple[int, bool]] = {}
    beats: list[tuple[str, int | None, int | None]] = []
    for job in store.state.jobs.values():
        pool, place = job.spec.pool, job.place
        if isinstance(place, Ready) and pool in store.state.pools:
            # Of equal ranks, one that has never run comes first.
            rank, name = (place.rank, job.first_run_at is not None), (pool, place.rank >> TIME_BITS)
            heads[name] = min(heads.get(name, rank), rank)
        elif isinstance(place, Leased):
            beats.append((pool, None, place.heartbeat_at))
    return q.pool_times([*beats, *((pool, rank, None) for (pool, _), (rank, has_run) in heads.items() if not has_run)])


def _list_workers_seen(store: MemoryStore, query: q.ListWorkersSeen) -> list[Worker]:
    found = [one for one in store.state.workers.values() if one.stopped_at is None and one.seen_at >= query.since_at]
    return sorted(found, key=lambda worker: worker.name)[: query.limit]


FIGURE_READS: Final[dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]]] = {
    q.ListFigures: _list_figures,
    q.GetFigurePoint: _get_figure_point,
    q.ListRollups: _list_rollups,
    q.ListOldRollups: _list_old_rollups,
    q.GetQueueCounts: _get_queue_counts,
    q.GetTotal: _get_total,
    q.GetAlertCounts: _get_alert_counts,
    q.GetBacklog: _get_backlog,
    q.ListPoolTimes: _list_pool_times,
    q.ListWorkersSeen: _list_workers_seen,
}
