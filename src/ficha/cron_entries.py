"""Cron entries: the recurring jobs that an application declares, checked where they are declared."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, get_args

from msgspec import Struct

from .core.cron_slots import cron_problem, zone_problem
from .core.schedules import COUNTED, Missed
from .declarations import is_seconds, is_whole, name_problem

MAX_ENTRIES: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9._~:-]{1,200}")
_DAILY: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")

CronPayload = Mapping[str, Any] | Callable[[datetime], Mapping[str, Any]]
"""A payload, or a plain function that makes it from the slot's time, in the schedule's time zone."""


class CronEntry(Struct, frozen=True):
    """A recurring job as it is declared; `Ficha.cron` describes the options. `payer`: None if its jobs are free."""

    name: str
    cron: str
    tz: str
    tool: str
    payer: str | None
    payload: CronPayload
    missed: Missed
    late_s: float
    missed_max: int


def checked_entry(entry: CronEntry) -> CronEntry:
    """Returns the entry; raises ValueError if anything is wrong with it."""
    for problem in _problems(entry):
        if problem is not None:
            raise ValueError(f"schedule {entry.name!r}: {problem}")
    return entry


def _problems(entry: CronEntry) -> list[str | None]:
    found = [cron_problem(entry.cron, entry.tz)]
    if _NAME.fullmatch(str(entry.name)) is None:
        found.append("its name must be 1 to 200 of the characters A-Z a-z 0-9 . _ ~ : -; give it one: name=…")
    if entry.missed not in get_args(Missed):
        found.append(f"missed must be one of {', '.join(get_args(Missed))}, not {entry.missed!r}")
    if not is_seconds(entry.late_s):
        found.append(f"late_s must be a number of seconds from a millisecond up, not {entry.late_s!r}")
    if not is_whole(entry.missed_max, 1, COUNTED):
        found.append(f"missed_max must be a whole number from 1 to {COUNTED}, not {entry.missed_max!r}")
    if entry.payer is not None:
        found.append(name_problem(entry.payer, "account"))
    if inspect.iscoroutinefunction(entry.payload):
        found.append("payload is a coroutine function; the payload is needed at once, so write a plain function")
    elif not callable(entry.payload) and not isinstance(entry.payload, Mapping):
        found.append(f"payload must be a mapping, or a function of the slot's time, not {entry.payload!r}")
    return found


def daily_cron(daily_at: Any) -> str:
    """A time of day such as 04:00 as a cron expression; raises ValueError if it is none."""
    found = _DAILY.fullmatch(daily_at) if isinstance(daily_at, str) else None
    if found is None:
        raise ValueError(f"daily_at must be a time of day such as '04:00', not {daily_at!r}")
    return f"{int(found[2])} {int(found[1])} * * *"


def checked_zone(time_zone: Any) -> None:
    """Raises ValueError if there is no such time zone."""
    if (problem := zone_problem(time_zone)) is not None:
        raise ValueError(f"time_zone: {problem}")
