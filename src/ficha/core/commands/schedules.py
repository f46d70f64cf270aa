"""Schedules: declared by the application, fired at their slots, paused, resumed and run by operators."""

from __future__ import annotations

from .base import Command
from .jobs import Submit


class DeclareSchedule(Command, frozen=True):
    """Declares a schedule of the application. If it is new, or has new times, its slots count from now."""

    name: str
    cron: str
    tz: str
    tool: str
    payer: str | None = None
    """Who pays; None if its jobs are free."""


class PauseSchedule(Command, frozen=True):
    """Pauses or resumes a schedule. Slots that pass while it is paused get no job, also not later."""

    schedule: str
    paused: bool = True


class FireSchedule(Command, frozen=True):
    """Settles the slots up to `slot_at`: submits the job of the last one, or none, and in the same decision records
    that they are settled. So a slot is fired once, whichever processes try and wherever they die.

    from_at: up to where slots were settled when this was made; if they are settled further by now, nothing is done.
    cron, tz: the times from which the slots were computed; if the schedule has others by now, nothing is done.
    account_id: who pays, or who owns free jobs.
    submit: the job of the last slot; None if it has none.
    passed: how many slots are passed over.
    code, message: why no job could be made for the last slot.
    """

    name: str
    cron: str
    tz: str
    from_at: int
    slot_at: int
    account_id: str
    submit: Submit | None = None
    passed: int = 0
    code: str | None = None
    message: str | None = None


class RunSchedule(Command, frozen=True):
    """Submits the schedule's job now, whatever its slots; paused or not."""

    schedule: str
    account_id: str
    submit: Submit
