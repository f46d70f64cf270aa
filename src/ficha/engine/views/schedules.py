"""Schedules: recurring jobs, when they run next, and what their last run led to."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from ...core.cron_slots import next_slot
from ...core.records import Schedule
from ...core.schedules import Missed
from .dates import moment, moment_if_any

ScheduleState = Literal["active", "paused", "gone"]


class ScheduleRun(Struct, frozen=True, kw_only=True):
    """What the last firing of a schedule led to.

    slot_at: the slot; None if somebody ran it by hand.
    job_id: the job; None if it was refused, and then `code` and `message` say why.
    """

    at: datetime
    slot_at: datetime | None
    job_id: str | None
    code: str | None
    message: str | None


class ScheduleView(Struct, frozen=True, kw_only=True):
    """A recurring job.

    account: who pays; None if its jobs are free.
    missed: what happens to slots at which nothing ran; None if the application no longer declares the schedule.
    state: `gone`: the application no longer declares the schedule, so it does not fire.
    next_at: its next slot; None unless it is active.
    fired, refused, passed: how many slots led to a job, how many to a refusal, and how many were passed over.
    """

    name: str
    cron: str
    tz: str
    tool: str
    account: str | None
    missed: Missed | None
    state: ScheduleState
    next_at: datetime | None
    last: ScheduleRun | None
    fired: int
    refused: int
    passed: int


def schedule_view(schedule: Schedule, missed: Missed | None, now: int) -> ScheduleView:
    """missed: None if the application does not declare it any more."""
    state: ScheduleState = "gone" if missed is None else "paused" if schedule.paused else "active"
    last = None
    if schedule.last_at is not None:
        last = ScheduleRun(
            at=moment(schedule.last_at),
            slot_at=moment_if_any(schedule.last_slot_at),
            job_id=schedule.last_job_id,
            code=schedule.last_code,
            message=schedule.last_message,
        )
    return ScheduleView(
        name=schedule.name,
        cron=schedule.cron,
        tz=schedule.tz,
        tool=schedule.tool,
        account=schedule.account_id,
        missed=missed,
        state=state,
        next_at=moment_if_any(
            next_slot(schedule.cron, schedule.tz, max(schedule.slot_at, now)) if state == "active" else None
        ),
        last=last,
        fired=schedule.fired,
        refused=schedule.refused,
        passed=schedule.missed,
    )
