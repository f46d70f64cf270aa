"""Runs an application's hooks: each once for every job that owes it, after the job's end was committed.

A hook is held while it runs, and its end is recorded. If the process dies in between, another process runs it again, so
a hook's work should be safe to repeat; the job's id can serve as the key.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final

from msgspec import Struct

from .. import tracing
from ..backoff import away_pause_s
from ..core.policy import HookTerms, hook_backoff_ms
from ..core.records import PendingHook
from ..engine.views import JobView
from ..errors import Refused
from ..job_log import begin, fields_of, timed
from ..operations import HookOperations
from ..store.base import StoreError
from ..trace_context import run_context
from .due_runner import DueRunner

log = logging.getLogger("ficha.worker")

AT_ONCE: Final = 20
"""The most hooks that run at a time."""
GRACE_S: Final = 10.0
"""How much longer than its timeout a hook is held, so that its end can be recorded."""


class Hook(Struct, frozen=True, eq=False):
    """A hook as it was declared.

    ends_itself: whether it is one of Ficha's own hooks, which is called with the operations and the pending hook, and
        records its end together with its work.
    """

    terms: HookTerms
    function: Callable[..., Any]
    timeout_s: float
    ends_itself: bool = False


class HookRunner(DueRunner):
    """Runs the declared hooks that are due."""

    what = "hooks"

    def __init__(self, operations: HookOperations, hooks: Mapping[str, Hook]) -> None:
        super().__init__()
        self._operations = operations
        self._hooks = hooks

    async def _begin(self) -> int:
        await self._operations.engine.hooks.run_here(hook.terms for hook in self._hooks.values())
        free = AT_ONCE - len(self._tasks)
        due = await self._operations.due_hooks(self._hooks, free) if free > 0 else []
        taken = await asyncio.gather(*(self._hold(hook) for hook in due))
        held = [hook for hook in taken if hook is not None]
        for hook in held:
            self._start(self._run(hook), hook)
        return len(held)

    def _heard(self) -> int:
        return self._operations.hooks_heard()

    async def _wait_for_word(self, timeout_s: float, since: int) -> bool:
        return await self._operations.wait_for_hooks(timeout_s, since=since)

    async def _hold(self, hook: PendingHook) -> PendingHook | None:
        """Holds the hook; None if it cannot. An error about one hook must not end the wait for the others:
        `asyncio.gather` would raise it even while the runner is being cancelled, and the runner would go on."""
        try:
            return await self._operations.hold_hook(hook, self._hooks[hook.name].timeout_s + GRACE_S)
        except (Refused, StoreError) as error:
            known = fields_of(hook.job_id, worker=self.worker)
            log.warning("the hook %s for job %s could not be taken: %s", hook.name, hook.job_id, error, extra=known)
            self._look_within(away_pause_s(1))
            return None

    async def _run(self, held: PendingHook) -> None:
        begin(timed(lambda duration_s: fields_of(held.job_id, worker=self.worker, duration_s=duration_s)))
        try:
            error = await self._call(held)
            if error is None and self._hooks[held.name].ends_itself:
                return
            if not await self._operations.end_hook(held, error):
                log.warning("the hook %s for job %s took too long, and is run again", held.name, held.job_id)
            if error is not None:
                # The pause of the retry began when the failure was recorded, so the retry is due by then.
                self._look_within(hook_backoff_ms(held.attempts) / 1_000)
        except (Refused, StoreError) as failed:
            log.warning("the hook %s for job %s is run again: %s", held.name, held.job_id, failed)

    async def _call(self, held: PendingHook) -> str | None:
        """Runs the hook; returns the error if it failed."""
        hook = self._hooks[held.name]
        job = None if hook.ends_itself else await self._operations.part(held.job_id)
        if job is not None:
            begin(timed(partial(_fields, job, self.worker)))
        try:
            with _span(held.name, job):
                if hook.ends_itself:
                    async with asyncio.timeout(hook.timeout_s):
                        await hook.function(self._operations, held)
                elif inspect.iscoroutinefunction(hook.function):
                    async with asyncio.timeout(hook.timeout_s):
                        await hook.function(job)
                else:
                    await asyncio.to_thread(hook.function, job)
        except Exception as error:
            if job is None:
                begin(timed(partial(_fields, await self._operations.part(held.job_id), self.worker)))
            # Not an error of Ficha, and not final: the hook is run again.
            log.warning("the hook %s for job %s failed; it is run again", held.name, held.job_id, exc_info=error)
            return f"{type(error).__name__}: {error}"
        return None


def _fields(job: JobView, worker: str | None, duration_s: float) -> dict[str, Any]:
    return fields_of(
        job.id,
        worker=worker,
        tool=job.tool,
        attempt=job.attempts + 1 if job.finished_at is None else max(1, job.attempts),
        epoch=job.epoch,
        status=job.status,
        duration_s=duration_s,
        correlation_id=job.correlation_id,
        trace=job.traceparent,
    )


def _span(name: str, job: JobView | None) -> AbstractContextManager[Any]:
    """The span of a hook, if tracing is on. Ficha's own hooks have none."""
    if tracing.active is None or job is None:
        return nullcontext()
    parent = run_context(job.id, job.traceparent, job.epoch)
    return tracing.active.within(f"hook {name}", parent, attributes={"messaging.message.id": job.id})
