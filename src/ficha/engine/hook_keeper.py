"""Which hooks are declared, by this process and by others: every job that ends in this process owes all of them.

A process reports its hooks when it starts and while it lives, and reads those of others. Between two looks it may miss
one that another process has just declared, so `LOOK_S` bounds how soon all processes owe a new hook.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ..core.commands import DeclareHook, EndHook, ForgetHook
from ..core.hooks import owed_terms
from ..core.outcomes import HookDeclared, HookEnded, HookForgotten
from ..core.policy import MILLISECOND, SECOND, HookTerms
from ..core.records import DeclaredHook
from ..store.base import DeclaredHooks, ListDeclaredHooks, ListHooks, StoreError
from .wakeups import DECLARED_HOOKS

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("ficha.engine")

LOOK_S: Final = 10.0
"""How often a process reads which hooks are declared, if no hint tells it sooner."""
LOOKS_APART_S: Final = 0.5
"""The shortest time between two looks, however many hints come."""
REPORT_S: Final = 60.0
"""How old the last report of a hook may be before a process that declares it reports again."""
PAGE: Final = 500


class HookKeeper:
    """One per engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._own = {terms.name: terms for terms in engine.policy.hooks}
        self._run: dict[str, HookTerms] = {}
        """The hooks that a worker of this process runs."""
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Declares this process's hooks and learns those of others, now and as long as the engine runs."""
        heard = self._engine.wakeups.heard((DECLARED_HOOKS,))
        await self._look(starts=True)
        self._task = asyncio.create_task(self._follow(heard), name="ficha hook keeper")

    async def learn(self) -> None:
        """Learns what processes declare by now. Reports nothing."""
        await self._read()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run_here(self, hooks: Iterable[HookTerms]) -> None:
        """Notes that a worker of this process runs these hooks."""
        found = {terms.name: terms for terms in hooks}
        if found != self._run:
            self._run = found
            await self._look()

    async def drop_runs(self, name: str) -> int:
        """Ends all runs of a hook that are still to be made; returns how many."""
        dropped = 0
        while True:
            page = await self._engine.store.read(ListHooks((name,), limit=PAGE))
            ended = await self._engine.call_many([EndHook(name, hook.job_id, hook.attempts) for hook in page])
            changed = sum(isinstance(outcome, HookEnded) and outcome.changed for outcome in ended)
            dropped += changed
            if len(page) < PAGE or not changed:
                return dropped

    async def _follow(self, heard: int) -> None:
        wakeups = self._engine.wakeups
        while True:
            await wakeups.wait((DECLARED_HOOKS,), LOOK_S, heard)
            heard = wakeups.heard((DECLARED_HOOKS,))
            try:
                await self._look()
            except StoreError as error:
                log.warning("declared hooks could not be read: %s", error)
            except Exception:
                log.exception("a look at declared hooks failed; the next one tries again")
            await asyncio.sleep(LOOKS_APART_S)

    async def _read(self) -> DeclaredHooks:
        found = await self._engine.store.read(ListDeclaredHooks())
        self._engine.owe(owed_terms(tuple(self._own.values()), found.hooks))
        return found

    async def _look(self, *, starts: bool = False) -> None:
        """Reads what all processes declare, reports what this one does, and forgets what none has for too long."""
        found = await self._read()
        known = {hook.name: hook for hook in found.hooks}
        old_at = found.now - int(REPORT_S * SECOND)
        commands = []
        for terms in {**self._run, **self._own}.values():
            hook, command = known.get(terms.name), self._declaring(terms, starts=starts)
            is_other = hook is not None and (hook.ends, hook.tools) != (command.ends, command.tools)
            if hook is None or (starts and is_other) or _reported_at(hook, runs=command.runs) <= old_at:
                commands.append(command)
        await self._report(commands)
        kept_from = found.now - self._engine.policy.hooks_kept_ms * MILLISECOND
        for hook in found.hooks:
            if hook.declared_at <= kept_from:
                await self._forget(hook.name)

    def _declaring(self, terms: HookTerms, *, starts: bool = False) -> DeclareHook:
        tools = None if terms.tools is None else tuple(sorted(terms.tools))
        return DeclareHook(terms.name, tuple(sorted(terms.ends)), tools, terms.name in self._run, starts)

    async def _report(self, commands: Sequence[DeclareHook]) -> None:
        for command, outcome in zip(commands, await self._engine.call_many(commands), strict=True):
            if not isinstance(outcome, HookDeclared):
                raise StoreError(f"the hook {command.name} could not be declared: {outcome}")

    async def _forget(self, name: str) -> None:
        outcome = await self._engine.call(ForgetHook(name, by_age=True))
        if isinstance(outcome, HookForgotten) and outcome.changed:
            dropped = await self.drop_runs(name)
            log.warning("no process has declared the hook %s for too long: %d runs were dropped", name, dropped)


def _reported_at(hook: DeclaredHook, *, runs: bool) -> int:
    return (hook.run_at or 0) if runs else hook.declared_at
