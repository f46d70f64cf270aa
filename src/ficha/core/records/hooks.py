"""Hooks that are owed since their job ended."""

from __future__ import annotations

from .base import Record


class PendingHook(Record, frozen=True):
    """A hook that is still to be run for a job that ended. The row goes when it has been run."""

    name: str
    job_id: str
    due_at: int
    """When it may be run next; while somebody runs it, when they are taken for dead."""
    attempts: int = 0
    error: str | None = None
    """Why the last attempt failed."""


HookName = tuple[str, str]
"""A hook's name and a job."""
