"""Slots of a quota that are held before the job exists."""

from __future__ import annotations

from typing import Literal

from .base import Command


class Reserve(Command, frozen=True):
    reservation_id: str
    account_id: str
    ttl_ms: int | None = None
    counts_parts: bool = False
    """See `refuse_quota`."""


class EndReservation(Command, frozen=True):
    """Ends a reservation because its job exists (`consumed`) or will not (`released`)."""

    reservation_id: str
    state: Literal["consumed", "released"]
    account_id: str | None = None


class ExpireReservation(Command, frozen=True):
    """Marks a reservation past its time as expired, or deletes one that ended long ago."""

    reservation_id: str
