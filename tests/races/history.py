"""What a race left behind, looked at as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from ficha import Ficha
from ficha.core.dataset import State
from ficha.core.invariants import overfull_pools
from ficha.core.records import Event
from ficha.store.base import GetState, ListCommits

_ENDS_HOLD = {"completed", "failed", "cancelled", "retried", "recovered"}


async def whole(app: Ficha) -> State:
    """Every row, with all events in the order of the commits, after proof that all invariants hold and that the commits
    have told what the histories tell."""
    assert await app.verify() == []
    state = await app.engine.store.read(GetState(texts=True))
    assert overfull_pools(state) == []
    histories = sorted(state.events, key=_line)
    commits = await app.engine.store.read(ListCommits(limit=1_000_000))
    # A sweep may have gone on after the state was read.
    counts = {job.id: job.events for job in state.jobs.values()}
    told = (event for commit in commits for event in commit.events)
    state.events = [event for event in told if event.number <= counts.get(event.job_id, 0)]
    assert sorted(state.events, key=_line) == histories
    return state


def _line(event: Event) -> tuple[str, int]:
    return event.job_id, event.number


def most_at_once(intervals: Iterable[tuple[int, int]]) -> int:
    """The largest number of intervals that have an instant in common."""
    steps = sorted(step for start, end in intervals for step in ((start, 1), (end, -1)))
    return _peak(change for _, change in steps)


def most_slots_held(state: State, pool: str) -> int:
    """The largest number of the pool's slots held at once, by the history that was committed, in its order.

    On SQLite, with its one writer, that is the order of the commits. On PostgreSQL a commit gets its number when it is
    written: a claim writes under the pool's lock, after all that it has counted as ended was committed, so what stands
    here is never more than the claim itself had to count.
    """
    return _peak(_slots(event for event in state.events if state.jobs[event.job_id].spec.pool == pool))


def _slots(events: Iterable[Event]) -> Iterable[int]:
    holding: set[str] = set()
    for event in events:
        if event.kind == "claimed":
            holding.add(event.job_id)
            yield 1
        elif event.kind in _ENDS_HOLD and event.job_id in holding:
            holding.remove(event.job_id)
            yield -1


def _peak(steps: Iterable[int]) -> int:
    level = peak = 0
    for step in steps:
        level += step
        peak = max(peak, level)
    return peak
