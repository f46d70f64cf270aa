"""Schedules: the recurring jobs of an application."""

from __future__ import annotations

from .. import validation as arg
from ..engine.views import Receipt, ScheduleView, Whole
from .effects import Flow
from .operation import operation
from .sending import RequestMethods, segment


class ScheduleMethods(RequestMethods):
    @operation
    def schedules(self) -> Flow[list[ScheduleView]]:
        """All schedules by name: when each is due next, and what its last time led to."""
        return (yield from self.get("/api/admin/schedules", Whole[ScheduleView])).items

    @operation
    def pause_schedule(self, name: str) -> Flow[ScheduleView]:
        """Pauses a schedule: its slots pass without a job and are not made up for."""
        return self.post(_of(name, "pause"), ScheduleView, harmless=True)

    @operation
    def resume_schedule(self, name: str) -> Flow[ScheduleView]:
        """Resumes a schedule: its slots fire again, from now on."""
        return self.post(_of(name, "resume"), ScheduleView, harmless=True)

    @operation
    def run_schedule(self, name: str, *, key: str | None = None) -> Flow[Receipt]:
        """Submits a schedule's job now, paused or not. With a `key` a repeat gets the first job; only then does the
        client retry the call."""
        return self.post(_of(name, "run"), Receipt, {"key": key}, harmless=key is not None)


def _of(name: str, what: str) -> str:
    return f"/api/admin/schedules/{segment(arg.name(name, 'a schedule'))}/{what}"
