"""Hooks that are still to be run for a job."""

from __future__ import annotations

from .base import Command


class HoldHook(Command, frozen=True):
    """Holds a due hook for `hold_ms`, to run it. After that time its holder counts as dead."""

    name: str
    job_id: str
    hold_ms: int


class EndHook(Command, frozen=True):
    """Ends a run of a hook: it succeeded, or (`error`) it failed and the hook is to be run again. `attempt` is the
    number of the run; it fences a run that counts as dead."""

    name: str
    job_id: str
    attempt: int
    error: str | None = None
