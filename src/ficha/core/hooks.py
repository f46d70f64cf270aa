"""Hooks: what an application wants to be run once for each job that ended.

`Workspace` adds a pending hook in the decision that ends the job, whatever ended it. The rules here decide which hooks
are declared, so that processes owe those of others too; and who runs a pending hook, and until when: a run that does
not end in its time counts as dead, and another one may begin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from . import audit
from .commands import DeclareHook, EndHook, ForgetHook, HoldHook
from .outcomes import HookDeclared, HookEnded, HookForgotten, HookHeld, Refusal
from .policy import MILLISECOND, SECOND, HookTerms, hook_backoff_ms
from .records import DeclaredHook
from .rule import Audited, Needs, Rule
from .workspace import Workspace

LIVE_S: Final = 180
"""A hook whose last report is older counts as declared, or as run, by no live process."""


def is_live(reported_at: int | None, now: int) -> bool:
    """Whether a report that a hook is declared, or is run, comes from a process that lives."""
    return reported_at is not None and now - reported_at < LIVE_S * SECOND


def owed_terms(own: tuple[HookTerms, ...], declared: Iterable[DeclaredHook]) -> tuple[HookTerms, ...]:
    """What the ends of jobs owe in a process: its own hooks, and those that only other processes declare."""
    names = {terms.name for terms in own}
    others = [
        HookTerms(hook.name, frozenset(hook.ends), None if hook.tools is None else frozenset(hook.tools))
        for hook in declared
        if hook.name not in names and hook.ends
    ]
    return (*own, *others)


def declare_hook(ws: Workspace, command: DeclareHook) -> HookDeclared:
    known = ws.find(DeclaredHook, command.name)
    run_at = ws.now if command.runs else None if known is None else known.run_at
    if known is None or command.starts:
        hook = DeclaredHook(command.name, command.ends, command.tools, ws.now, run_at)
    else:
        hook = replace(known, declared_at=ws.now, run_at=run_at)
    ws.put(hook)
    return HookDeclared(hook)


def forget_hook(ws: Workspace, command: ForgetHook) -> HookForgotten | Refusal:
    known = ws.find(DeclaredHook, command.name)
    if known is None:
        return HookForgotten(changed=False)
    if command.by_age and ws.now - known.declared_at < ws.policy.hooks_kept_ms * MILLISECOND:
        return HookForgotten(changed=False)
    if is_live(known.declared_at, ws.now):
        return Refusal(
            "INVALID_STATE",
            f"a running process declares the hook {command.name}; nothing was changed. Stop the processes that declare "
            f"it, and ask again {LIVE_S // 60} minutes later.",
        )
    ws.remove(known)
    if command.by_age:
        audit.record_of_system(ws, "forget_hook", f"hook {known.name}")
    return HookForgotten(changed=True)


def hold_hook(ws: Workspace, command: HoldHook) -> HookHeld:
    hook = ws.hook(command.name, command.job_id)
    if hook is None or hook.due_at > ws.now:
        return HookHeld(None)
    held = replace(hook, due_at=ws.now + command.hold_ms * MILLISECOND, attempts=hook.attempts + 1)
    ws.put_hook(held)
    return HookHeld(held)


def end_hook(ws: Workspace, command: EndHook) -> HookEnded:
    hook = ws.hook(command.name, command.job_id)
    if hook is None or command.attempt != hook.attempts:
        return HookEnded(changed=False)
    if command.error is None:
        ws.end_hook(hook)
    else:
        due_at = ws.now + hook_backoff_ms(hook.attempts) * MILLISECOND
        ws.put_hook(replace(hook, due_at=due_at, error=command.error))
    return HookEnded(changed=True)


def _needs(wanted: Needs, command: HoldHook | EndHook) -> None:
    wanted.owned_jobs.add(command.job_id)
    wanted.hooks_of.add(command.job_id)


def _needs_declared(wanted: Needs, command: DeclareHook | ForgetHook) -> None:
    wanted.find(DeclaredHook, command.name)


def _audit_forgotten(command: ForgetHook, _: HookForgotten) -> Audited:
    return Audited("forget_hook", f"hook {command.name}")


RULES = (
    Rule(DeclareHook, decide=declare_hook, needs=_needs_declared, locks_account=False),
    Rule(
        ForgetHook,
        decide=forget_hook,
        needs=_needs_declared,
        refuses=("INVALID_STATE",),
        audit=_audit_forgotten,
        locks_account=False,
    ),
    Rule(HoldHook, decide=hold_hook, needs=_needs),
    Rule(EndHook, decide=end_hook, needs=_needs),
)
