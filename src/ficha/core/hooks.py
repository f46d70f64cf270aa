"""Hooks: what an application wants to be run once for each job that ended.

`Workspace` adds a pending hook in the decision that ends the job, whatever ended it. The rules here decide who runs the
hook, and until when: a run that does not end in its time counts as dead, and another one may begin.
"""

from __future__ import annotations

from msgspec.structs import replace

from .commands import EndHook, HoldHook
from .outcomes import HookEnded, HookHeld
from .policy import MILLISECOND, hook_backoff_ms
from .rule import Needs, Rule
from .workspace import Workspace


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


RULES = (Rule(HoldHook, decide=hold_hook, needs=_needs), Rule(EndHook, decide=end_hook, needs=_needs))
