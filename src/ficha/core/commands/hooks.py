"""Hooks that are owed since their job ended."""

from __future__ import annotations

from .base import Command


class HoldHook(Command, frozen=True):
    """Takes a hook that is due, for so long: whoever holds it runs it, and is taken for dead after that."""

    name: str
    job_id: str
    hold_ms: int


class EndHook(Command, frozen=True):
    """The hook has been run, or (`error`) it failed and is to be run again. `attempt` says which run it was, and fences
    one that was taken for dead."""

    name: str
    job_id: str
    attempt: int
    error: str | None = None
