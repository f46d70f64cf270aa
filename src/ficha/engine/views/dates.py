"""Instants and dates: whole microseconds inside, dates in UTC for people and programs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(at: int) -> datetime:
    """An instant as a date in UTC, to the microsecond."""
    return _EPOCH + timedelta(microseconds=at)


def moment_if_any(at: int | None) -> datetime | None:
    return None if at is None else moment(at)


def moment_of_id(job_id: str) -> datetime:
    """When an id was made, to the millisecond: the first digits of a UUIDv7 say so."""
    return moment(int(job_id[:8] + job_id[9:13], 16) * 1_000)


def instant(date: datetime) -> int:
    """A date as whole microseconds; a date without a zone is treated as UTC."""
    aware = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)
