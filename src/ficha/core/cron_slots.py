"""The slots of a cron expression: the instants at which a schedule fires, by the clock of a time zone.

The rules for daylight saving are those of Debian's cron, which the library `cronsim` follows. A schedule at fixed times
(neither minute nor hour begins with `*`) fires once for each of its times: a time that the clock skips in spring fires
at the first minute after the gap, and a time that the clock shows twice in autumn fires the first time only. A schedule
with `*` in its minute or hour follows elapsed time: it has no slots in the gap, and the slots of the repeated hour
twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LONGEST_FOLD: Final = timedelta(hours=4)
"""No clock is put back further than this."""
_SOME_DAY: Final = 1_704_067_200_000_000
"""2024-01-01, in a leap year: where the search starts that finds out whether an expression ever has a slot."""
_FIELDS: Final = ("minute", "hour", "day-of-month", "month", "day-of-week")
NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


def cron_problem(expression: object, tz: object) -> str | None:
    """Returns what is wrong with a cron expression or its time zone; None if nothing is."""
    if not isinstance(expression, str) or len(expression) > 255:
        return f"a cron expression is text such as '0 9 * * 1-5', not {expression!r}"
    if (problem := zone_problem(tz)) is not None:
        return problem
    text = NICKNAMES.get(expression, expression)
    parts = text.split()
    if expression.startswith("@") and expression not in NICKNAMES:
        return f"the cron expression {expression!r} is not known; known are: {', '.join(NICKNAMES)}"
    if len(parts) != len(_FIELDS):
        return f"the cron expression {expression!r} has {len(parts)} fields; it needs five: {', '.join(_FIELDS)}"
    try:
        CronSim(text, _EPOCH)
    except (CronSimError, AssertionError) as error:
        field = str(error).removeprefix("Bad ")
        shown = f": {parts[_FIELDS.index(field)]!r}" if field in _FIELDS else ""
        return f"the cron expression {expression!r} has a bad {field or 'field'}{shown}"
    if next_slot(expression, "UTC", _SOME_DAY) is None:
        return f"the cron expression {expression!r} never comes: no year has such a day"
    return None


def zone_problem(tz: object) -> str | None:
    """Returns why a time zone cannot be used; None if it can."""
    try:
        if not isinstance(tz, str):
            raise ValueError(tz)
        ZoneInfo(tz)
    except (KeyError, ValueError, OSError):
        return (
            f"there is no time zone {tz!r}; write a name such as 'America/Sao_Paulo' or 'UTC'. Where the system has no "
            "time zones, install the package tzdata"
        )
    return None


def next_slot(expression: str, tz: str, after: int) -> int | None:
    """The first slot after an instant; None if none comes in 50 years."""
    return next(_slots(expression, tz, after), None)


def last_slots(expression: str, tz: str, after: int, until: int, most: int) -> list[int]:
    """Returns the newest slots after one instant and up to another: at most `most` of them, oldest first."""
    found: list[int] = []
    # The search goes backwards, so that a year of minutes costs no more than a day. A clock that was put back repeats
    # local times, so the search starts behind any repetition, and slots after `until` are left out.
    for slot in _slots(expression, tz, until + _LONGEST_FOLD // _MICROSECOND, reverse=True):
        if slot <= after or len(found) == most:
            break
        if slot <= until and (not found or slot < found[-1]):
            found.append(slot)
    return found[::-1]


def local_time(slot: int, tz: str) -> datetime:
    """An instant as the zone's clock shows it."""
    return (_EPOCH + timedelta(microseconds=slot)).astimezone(_zone(tz))


@lru_cache(maxsize=64)
def _zone(tz: str) -> ZoneInfo:
    return ZoneInfo(tz)


def _slots(expression: str, tz: str, start: int, *, reverse: bool = False) -> Iterator[int]:
    begin = local_time(start, tz)
    for slot in CronSim(NICKNAMES.get(expression, expression), begin, reverse=reverse):
        at = (slot - _EPOCH) // _MICROSECOND
        # A local time that the clock shows twice is read as its first occurrence, which may lie before the start.
        if at < start if reverse else at > start:
            yield at
