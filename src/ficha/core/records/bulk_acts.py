"""Bulk acts: one act of an operator on all jobs that a search finds."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .keyed import Keyed

BulkVerb = Literal["requeue", "discard", "cancel", "refund"]
BulkState = Literal["running", "stopped", "done"]


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
