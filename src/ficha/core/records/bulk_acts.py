"""Bulk acts: one act of an operator on all jobs that a search finds."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from .keyed import Keyed

BulkVerb = Literal["requeue", "discard", "cancel", "refund"]
BulkState = Literal["running", "stopped", "done"]
NEVER: Final = 253_370_764_800_000_000
"""The beginning of the year 9999."""


class BulkFailure(Struct, frozen=True, gc=False):
    """A job to which the act could not be done, and why."""

    job_id: str
    code: str
    text: str


class BulkAct(Keyed, frozen=True, tag=True):
    """An act on all jobs that a search finds and that existed when the act began. It is done from the newest job to the
    oldest, a few at a time."""

    id: str
    act: BulkVerb
    search: str
    reason: str
    actor: str
    """In whose name each job's act is done."""
    total: int
    credits: int
    """How many jobs matched when it began, and what they cost together."""
    started_at: int
    due_at: int
    """When a process may hold it; while one does, when that process counts as dead."""
    before_id: str
    """The jobs that are left have lesser ids."""
    floor_id: str | None = None
    """Jobs with lesser ids are left out; None if none are."""
    state: BulkState = "running"
    holds: int = 0
    """How often a process took hold of it; the number fences a process that counts as dead."""
    done: int = 0
    failed: int = 0
    ended_at: int | None = None
    failures: tuple[BulkFailure, ...] = ()
    """The first jobs that failed."""
    key_id: str | None = None
    """The API key with which it was begun, if there was one. The jobs that it makes name this key."""
    amount: int | None = None
    """Of a refund: at most so many credits of each job."""
    share: str | None = None
    """Of a refund: so much of each job's charge, as a decimal text."""
    part_due_at: int | None = None
    """Takes the place of `due_at`, which is then `NEVER`, for a refund of a part: earlier releases look for due acts by
    `due_at`, and would refund all."""

    def holdable_at(self) -> int:
        """When a process may hold it."""
        return self.due_at if self.part_due_at is None else self.part_due_at

    def due(self, at: int) -> BulkAct:
        """The act, to be held from then on."""
        if self.amount is None and self.share is None:
            return replace(self, due_at=at)
        return replace(self, due_at=NEVER, part_due_at=at)
