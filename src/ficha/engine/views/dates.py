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


def instant(date: datetime) -> int:
    """A date as whole microseconds; a date without a zone is taken for UTC."""
    aware = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)
