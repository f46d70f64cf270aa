"""The runner of hooks by itself: what its calls answer comes in the order that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from ficha.core.policy import HookTerms
from ficha.core.records import PendingHook
from ficha.operations import HookOperations
from ficha.store.base import Unavailable
from ficha.worker.hook_runner import Hook, HookRunner


class _TwoDue:
    """Two hooks are due. Taking the first fails when the test says so; the second is never taken."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)
        self.fails = asyncio.Event()
        self.engine = self
        self.hooks = self

    async def run_here(self, hooks: Iterable[HookTerms]) -> None: ...

    def hooks_heard(self) -> int:
        return 0

    async def due_hooks(self, names: Iterable[str], limit: int) -> list[PendingHook]:
        return [PendingHook(job_id=job_id, name="paid", due_at=0) for job_id in ("first", "second")]

    async def hold_hook(self, hook: PendingHook, hold_s: float) -> PendingHook | None:
        self.asked.release()
        if hook.job_id == "second":
            await asyncio.Event().wait()
        await self.fails.wait()
        raise Unavailable("the database is away")

    async def wait_for_hooks(self, timeout_s: float, *, since: int) -> bool:
        await asyncio.sleep(timeout_s)
        return False


async def test_a_runner_that_is_cancelled_while_a_call_fails_ends() -> None:
    operations = _TwoDue()
    hook = Hook(cast("HookTerms", None), lambda job: None, 1.0)
    runner = asyncio.create_task(HookRunner(cast("HookOperations", cast("Any", operations)), {"paid": hook}).run())
    for _ in range(2):
        await operations.asked.acquire()
    operations.fails.set()
    # After the call has failed, and before whoever waits for both calls hears of it.
    asyncio.get_running_loop().call_soon(runner.cancel)
    done, _ = await asyncio.wait({runner}, timeout=10)
    assert done
    assert runner.cancelled()
