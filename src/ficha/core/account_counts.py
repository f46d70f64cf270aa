"""What a job counts for, by its place: in its account's counters and in its pool's slots."""

from __future__ import annotations

from .records import Awaiting, Leased, Parked, Place


def counts_of(place: Place | None) -> tuple[int, int, int]:
    """What a job in this place adds to its account's counters: active, admitted, parked."""
    if place is None:
        return 0, 0, 0
    if type(place) is Parked and place.behind is None:
        return 1, 0, int(place.due_at is None)
    return 1, 1, 0


def holds_slot(place: Place | None) -> bool:
    """Whether a job in this place occupies a slot of its pool."""
    return type(place) is Leased or type(place) is Awaiting
