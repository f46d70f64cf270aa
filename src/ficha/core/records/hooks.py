"""Hooks that are still to be run for a job."""

from __future__ import annotations

from .base import Record


class PendingHook(Record, frozen=True):
    """A hook that is still to be run for a job, usually one that ended. Its row is deleted when it has been run."""

    name: str
    job_id: str
    due_at: int
    """When it may be run next; while a process runs it, when that process counts as dead."""
    attempts: int = 0
    error: str | None = None
    """Why the last attempt failed."""


HookName = tuple[str, str]
"""A hook's name and a job."""
