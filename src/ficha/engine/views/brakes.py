"""Brakes, as operators and those who submit see them."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ...core.commands import Braked
from ...core.records import Brake
from .dates import moment


class BrakeView(Struct, frozen=True, kw_only=True):
    """What is stopped of a tool or a pool, since when.

    paused: whether jobs of the tool are held back. (Whether a pool is paused, the pool itself says.)
    closed: why it takes no submits; None if it takes them.
    since: None if nothing is stopped.
    """

    kind: Braked
    name: str
    paused: bool
    closed: str | None
    since: datetime | None


def brake_view(kind: Braked, name: str, brake: Brake | None) -> BrakeView:
    if brake is None or not (brake.paused or brake.closed):
        return BrakeView(kind=kind, name=name, paused=False, closed=None, since=None)
    return BrakeView(kind=kind, name=name, paused=brake.paused, closed=brake.closed, since=moment(brake.since_at))


def brake_views(brakes: list[Brake]) -> list[BrakeView]:
    """What is stopped. A brake is kept for a moment after a resume, and is none then."""
    found = []
    for brake in brakes:
        kind, _, name = brake.name.partition(" ")
        found.append(brake_view("tool" if kind == "tool" else "pool", name, brake))
    return [view for view in found if view.since is not None]
