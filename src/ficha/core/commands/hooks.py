"""Hooks: declared by processes, and still to be run for a job."""

from __future__ import annotations

from ..records import Status
from .base import Command


class DeclareHook(Command, frozen=True):
    """Reports that a process declares a hook, and whether it also runs it. `starts`: at the process's start, whose
    terms take the place of earlier ones; later reports only say that it is still there."""

    name: str
    ends: tuple[Status, ...]
    tools: tuple[str, ...] | None
    runs: bool = False
    starts: bool = False


class ForgetHook(Command, frozen=True):
    """Ends a hook that no live process declares, or (`by_age`) that none has declared for as long as the policy keeps
    it: ends of jobs owe it no longer."""

    name: str
    by_age: bool = False


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
