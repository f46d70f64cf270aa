"""Schedules: what is stored of a recurring job between its times."""

from __future__ import annotations

from typing import ClassVar

from .keyed import Keyed


class Schedule(Keyed, frozen=True, tag=True):
    """A recurring job as it was declared last, and up to when it is settled. Its times are called slots."""

    is_in_every_part: ClassVar[bool] = False

    name: str
    cron: str
    tz: str
    tool: str
    account_id: str | None
    """Who pays; None if its jobs are free."""
    slot_at: int
    """Every slot up to here is settled: it was fired, refused, or passed over."""
    paused: bool = False
    fired: int = 0
    refused: int = 0
    missed: int = 0
    """How many slots led to a job, how many to a refusal, and how many were passed over."""
    last_at: int | None = None
    """When it was last fired, or refused."""
    last_slot_at: int | None = None
    """The slot that `last_at` belongs to; None if somebody ran the schedule by hand."""
    last_job_id: str | None = None
    last_code: str | None = None
    last_message: str | None = None
    """The result of the last slot: a job, or the code and text of a refusal."""
