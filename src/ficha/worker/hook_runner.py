"""Runs the hooks of an application: each once for every job that it is for, after the job's end was committed.

A hook is held while it runs, and its end is recorded. If the process dies in between, another one runs it again: what a
hook does should be safe to repeat, for which the job's id is the key.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from ..backoff import away_pause_s
from ..core.policy import HookTerms, hook_backoff_ms
from ..core.records import PendingHook
from ..errors import Refused
from ..futures import stop_tasks
from ..operations import HookOperations
from ..store.base import StoreError

log = logging.getLogger("ficha.worker")

POLL_S = 5.0
"""Wake-ups are only hints, so due hooks are also looked for this often."""
AT_ONCE: Final = 20
"""Hooks that run at a time, at most."""
GRACE_S: Final = 10.0
"""How much longer than its timeout a hook is held: so that its end can be recorded."""
STOPPING_S: Final = 2.0
"""How long hooks under way may take to end when the worker stops."""


class Hook(Struct, frozen=True, eq=False):
    """A hook as it was declared.

    ends_itself: whether it is one of Ficha's own, which is called with the operations and the pending hook, and records
        its end together with what it does.
    """

    terms: HookTerms
    function: Callable[..., Any]
    timeout_s: float
    ends_itself: bool = False


class HookRunner:
    """Runs the hooks that are due, of those declared, until cancelled."""

    def __init__(self, operations: HookOperations, hooks: Mapping[str, Hook]) -> None:
        self._operations = operations
        self._hooks = hooks
        self._tasks: set[asyncio.Task[None]] = set()
        self._retry_at = float("inf")
        """When the next of those that failed here is due again."""
        self._may_be_more = False
        """Whether as many were due at the last look as could be begun: there may be others."""

    async def run(self) -> None:
        """Until cancelled; those under way may still end, within a little while."""
        tries = 0
        try:
            while True:
                heard = self._operations.hooks_heard()
                try:
                    await self._begin()
                    tries = 0
                except (Refused, StoreError) as error:
                    tries += 1
                    log.warning("hooks could not be looked for: %s", error)
                    await asyncio.sleep(away_pause_s(tries))
                    continue
                await self._wait(heard)
        finally:
            await stop_tasks(self._tasks, STOPPING_S)

    async def drain(self) -> int:
        """Runs all that are due by now, and those that become due meanwhile; returns how many runs that were."""
        ran = 0
        try:
            while begun := await self._begin():
                ran += begun
                await asyncio.wait(self._tasks)
        except (Refused, StoreError) as error:
            log.warning("hooks could not be looked for: %s", error)
        return ran

    async def _begin(self) -> int:
        """Takes due hooks, as many as may run, and begins them."""
        if time.monotonic() >= self._retry_at:
            self._retry_at = float("inf")
        free = AT_ONCE - len(self._tasks)
        due = await self._operations.due_hooks(self._hooks, free) if free > 0 else []
        taken = await asyncio.gather(*(self._hold(hook) for hook in due))
        held = [hook for hook in taken if hook is not None]
        for hook in held:
            task = asyncio.create_task(self._run(hook), name=f"ficha hook {hook.name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._may_be_more = len(held) == free
        return len(held)

    async def _hold(self, hook: PendingHook) -> PendingHook | None:
        """The hook, if it can be taken. An error of one must not end the wait for the others: `asyncio.gather` would
        raise it even where the runner is being cancelled, and the runner would go on."""
        try:
            return await self._operations.hold_hook(hook, self._hooks[hook.name].timeout_s + GRACE_S)
        except (Refused, StoreError) as error:
            log.warning("the hook %s for job %s could not be taken: %s", hook.name, hook.job_id, error)
            self._retry_at = min(self._retry_at, time.monotonic() + away_pause_s(1))
            return None

    async def _wait(self, heard: int) -> None:
        """Until a job ends that owes a hook, a slot is free again, or it is time to look."""
        is_full = len(self._tasks) >= AT_ONCE
        if self._may_be_more and not is_full:
            return
        wait_s = max(0.0, min(POLL_S, self._retry_at - time.monotonic()))
        woken = asyncio.create_task(self._operations.wait_for_hooks(wait_s, since=heard))
        try:
            await asyncio.wait(self._tasks if is_full else {woken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()

    async def _run(self, held: PendingHook) -> None:
        try:
            error = await self._call(held)
            if error is None and self._hooks[held.name].ends_itself:
                return
            if not await self._operations.end_hook(held, error):
                log.warning("the hook %s for job %s took too long, and is run again", held.name, held.job_id)
        except (Refused, StoreError) as failed:
            log.warning("the hook %s for job %s is run again: %s", held.name, held.job_id, failed)

    async def _call(self, held: PendingHook) -> str | None:
        """Runs it; the error, if it failed."""
        hook = self._hooks[held.name]
        job = None if hook.ends_itself else await self._operations.job(held.job_id)
        try:
            if hook.ends_itself:
                async with asyncio.timeout(hook.timeout_s):
                    await hook.function(self._operations, held)
            elif inspect.iscoroutinefunction(hook.function):
                async with asyncio.timeout(hook.timeout_s):
                    await hook.function(job)
            else:
                await asyncio.to_thread(hook.function, job)
        except Exception as error:
            # Not an error of Ficha's, and not the end: it is run again.
            log.warning("the hook %s for job %s failed; it is run again", held.name, held.job_id, exc_info=error)
            pause_s = hook_backoff_ms(held.attempts) / 1_000
            self._retry_at = min(self._retry_at, time.monotonic() + pause_s)
            return f"{type(error).__name__}: {error}"
        return None
