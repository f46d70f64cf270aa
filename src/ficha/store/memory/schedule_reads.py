"""The memory store's answers about schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.records import Schedule
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _list_schedules(store: MemoryStore, query: q.ListSchedules) -> q.ScheduleList:
    found = sorted(store.state.of(Schedule).values(), key=lambda schedule: schedule.name)
    return q.ScheduleList(store.clock(), found[: query.limit])


SCHEDULE_READS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.ListSchedules: _list_schedules,
}
