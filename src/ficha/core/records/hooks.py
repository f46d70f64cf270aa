"""Hooks: which are declared, and which are still to be run for a job."""

from __future__ import annotations

from typing import ClassVar

from .base import Record
from .jobs import Status
from .keyed import Keyed


class DeclaredHook(Keyed, frozen=True, tag=True):
    """A hook as the process that was started last declares it. Every process that ends a job owes it."""

    is_in_every_part: ClassVar[bool] = False

    name: str
    ends: tuple[Status, ...]
    """The ends that owe it; none if the rules owe it by themselves."""
    tools: tuple[str, ...] | None
    declared_at: int
    """When a process last reported that it declares the hook."""
    run_at: int | None = None
    """When a worker last reported that it runs the hook."""


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
