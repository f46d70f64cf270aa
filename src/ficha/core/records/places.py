"""Where an active job is: it waits, or somebody holds it."""

from __future__ import annotations

from typing import Final

from .base import Record

HELD_BACK_AT: Final = 253_370_764_800_000_000
"""The `due_at` of a job whose tool is paused: the year 9999, so that only the end of the pause lets it go. (No job is
scheduled so far ahead.)"""


class Ready(Record, frozen=True, tag=True):
    """Queued, and any worker of the pool may claim it."""

    rank: int
    ages_at: int | None = None
    """When waiting next improves the rank; None if the plan has no ageing."""


class Parked(Record, frozen=True, tag=True):
    """Queued, and not claimable: before `due_at`, or (if that is None) while its account is at its `max_running`, or
    (`behind`) while an equal job is run."""

    rank: int
    due_at: int | None = None
    behind: str | None = None
    """The job whose result would answer this one. This one goes on counting as admitted, and waits until the other is
    no longer held, or at most until `due_at`. A claim that meets a job of a paused tool parks it behind itself, until
    `HoldBack` sees to it under its account's lock."""

    @property
    def is_held_back(self) -> bool:
        """Whether its tool is paused, or was until now."""
        return self.due_at == HELD_BACK_AT


class Leased(Record, frozen=True, tag=True):
    """Held by a worker until `expires_at`, and at most until `deadline_at`."""

    worker: str
    leased_at: int
    heartbeat_at: int
    expires_at: int
    deadline_at: int


class Awaiting(Record, frozen=True, tag=True):
    """With an external provider under the reference `ref`: holds a slot of the pool, but no worker."""

    ref: str
    since_at: int
    deadline_at: int
    poll_at: int | None = None
    """When the provider is polled next; while a process polls it, when that process counts as dead. None: never."""


Place = Ready | Parked | Leased | Awaiting
WAITING = (Ready, Parked)
HELD = (Leased, Awaiting)
"""The places of waiting jobs, and of jobs that hold a slot. (isinstance is faster with tuples than with unions.)"""
