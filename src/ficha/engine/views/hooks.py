"""Hooks: which are declared, and which are still to be run for jobs that ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from ...core.hooks import is_live
from ...core.records import DeclaredHook, PendingHook
from ...store.base import DeclaredHooks, OwedHook
from .dates import moment

HookState = Literal["run", "declared", "gone", "unknown"]


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


class DeclaredHookView(Struct, frozen=True, kw_only=True):
    """A hook that ends of jobs owe.

    state: "run": a live worker runs it; "declared": live processes declare it, but no worker runs it; "gone": no live
        process declares it; "unknown": runs of it are still to be made, but no process of this release ever declared
        it. ends, tools: the ends of jobs that owe it; no tools: those of all. declared_at, run_at: when a process last
        declared it, and when a worker last ran it. owed: how many runs are still to be made, among the 10,000 that are
        due first.
    """

    name: str
    state: HookState
    ends: tuple[str, ...]
    tools: tuple[str, ...] | None
    declared_at: datetime | None
    run_at: datetime | None
    owed: int


def declared_hook_views(found: DeclaredHooks, owed: Sequence[OwedHook]) -> list[DeclaredHookView]:
    counts = {one.name: one.count for one in owed}
    known = {hook.name: hook for hook in found.hooks}
    return [_declared(name, known.get(name), counts.get(name, 0), found.now) for name in sorted({*known, *counts})]


def _declared(name: str, hook: DeclaredHook | None, owed: int, now: int) -> DeclaredHookView:
    return DeclaredHookView(
        name=name,
        state=_state(hook, now),
        ends=() if hook is None else hook.ends,
        tools=None if hook is None else hook.tools,
        declared_at=None if hook is None else moment(hook.declared_at),
        run_at=None if hook is None or hook.run_at is None else moment(hook.run_at),
        owed=owed,
    )


def _state(hook: DeclaredHook | None, now: int) -> HookState:
    if hook is None:
        return "unknown"
    if is_live(hook.run_at, now):
        return "run"
    return "declared" if is_live(hook.declared_at, now) else "gone"
