"""Hooks that are still to be run for jobs that ended."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ...core.records import PendingHook
from .dates import moment


class HookView(Struct, frozen=True, kw_only=True):
    """A hook that is still to be run for a job.

    next_at: when it is run next; while a process runs it, when that process is presumed dead. attempts: runs so far,
    the one under way included. error: why the last one failed.
    """

    hook: str
    job_id: str
    next_at: datetime
    attempts: int
    error: str | None


def hook_view(hook: PendingHook) -> HookView:
    return HookView(
        hook=hook.name,
        job_id=hook.job_id,
        next_at=moment(hook.due_at),
        attempts=hook.attempts,
        error=hook.error,
    )
