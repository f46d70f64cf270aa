"""The trigger: calls a function of the application when jobs become ready, so that it can start a worker.

For serverless hosts: each submit starts a worker, which runs within its time budget and ends.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

log = logging.getLogger("ficha.engine")

OnWork = Callable[[tuple[str, ...]], Any]
"""Called with the names of pools; a coroutine function is awaited."""

PAUSE_S: Final = 0.05
"""The shortest time between two calls; pools that become ready meanwhile share the next one."""


class Trigger:
    """Calls `on_work` in the background, one call at a time. Its exceptions are logged: the jobs still wait."""

    def __init__(self, on_work: OnWork) -> None:
        self._on_work = on_work
        self._pools: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def fire(self, pools: Iterable[str]) -> None:
        self._pools.update(pools)
        if self._pools and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="ficha trigger")

    async def stop(self) -> None:
        """Waits for a call under way to end."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._pools:
            pools, self._pools = tuple(sorted(self._pools)), set()
            try:
                answer = self._on_work(pools)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                log.exception("on_work failed; the jobs still wait for a worker")
            await asyncio.sleep(PAUSE_S)
