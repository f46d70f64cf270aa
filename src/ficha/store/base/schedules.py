"""Questions about schedules."""

from __future__ import annotations

from msgspec import Struct

from ...core.records import Schedule
from .query import Query


class ScheduleList(Struct, frozen=True):
    """Schedules by name, and the database's time."""

    now: int
    schedules: list[Schedule]


class ListSchedules(Query[ScheduleList], frozen=True):
    """All schedules that were ever declared."""

    limit: int = 10_000
