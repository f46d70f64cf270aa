"""Hooks: which are declared, which are still to be run for ended jobs, and how their runs ended."""

from __future__ import annotations

from collections.abc import Iterable

from .. import validation as arg
from ..core.commands import EndHook, ForgetHook, HoldHook
from ..core.outcomes import HookEnded, HookForgotten, HookHeld, Refusal
from ..core.records import PendingHook
from ..engine.views import DeclaredHookView, HookView, declared_hook_views
from ..engine.wakeups import HOOKS
from ..errors import Refused
from ..store.base import CountHooks, ListDeclaredHooks, ListHooks
from .submits import SubmitOperations


class HookOperations(SubmitOperations):
    async def hooks(self, *, limit: int = 50) -> list[HookView]:
        """Hooks that are still to be run, the longest due first."""
        return await self.queries.hooks(arg.count(limit, "limit", self.limits.page_items))

    async def declared_hooks(self) -> list[DeclaredHookView]:
        """All hooks that are declared, or of which runs are still to be made, by name."""
        found = await self.engine.store.read(ListDeclaredHooks())
        owed = await self.engine.store.read(CountHooks())
        return declared_hook_views(found, owed)

    async def forget_hook(self, name: str) -> int:
        """Ends a hook that no running process declares: jobs that end owe it no longer, and its runs that are still to
        be made are dropped. Returns how many."""
        named = arg.name(name, "a hook")
        if not any(hook.name == named for hook in await self.declared_hooks()):
            raise Refused.of(Refusal("NOT_FOUND", f"there is no hook {named!r}; nothing was changed."))
        await self._ask(ForgetHook(named), HookForgotten)
        return await self.engine.hooks.drop_runs(named)

    async def due_hooks(self, names: Iterable[str], limit: int) -> list[PendingHook]:
        """The hooks of these names that may be run now."""
        return await self.engine.store.read(ListHooks(tuple(names), is_due=True, limit=limit))

    async def hold_hook(self, hook: PendingHook, hold_s: float) -> PendingHook | None:
        """Holds a hook, to run it; None if somebody else was faster. After `hold_s` this run is treated as dead."""
        command = HoldHook(hook.name, hook.job_id, arg.milliseconds(hold_s, "hold_s"))
        return (await self._ask(command, HookHeld)).hook

    async def end_hook(self, held: PendingHook, error: str | None = None) -> bool:
        """Records that the hook has run, or with an `error` that it failed and must run again. False if this run was
        treated as dead."""
        words = None if error is None else arg.text(error)
        return (await self._ask(EndHook(held.name, held.job_id, held.attempts, words), HookEnded)).changed

    def hooks_heard(self) -> int:
        """What to pass to `wait_for_hooks` as `since`."""
        return self.engine.wakeups.heard((HOOKS,))

    async def wait_for_hooks(self, timeout_s: float, *, since: int) -> bool:
        """Returns True when a job that owes a hook has ended, or False when the time is up."""
        return await self.engine.wakeups.wait((HOOKS,), timeout_s, since)
