"""The job as its handler sees it: what was done before, and where to put what is done now."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from ..engine.views import JobView, Lease
from ..operations import Leases


class JobContext:
    """The first argument of every handler. Each write is fenced by the lease: a worker that lost it is refused."""

    def __init__(self, operations: Leases, lease: Lease, job: JobView, steps: dict[str, Any]) -> None:
        self._operations = operations
        self._lease = lease
        self._job = job
        self._steps = steps
        self._running: dict[str, asyncio.Lock] = {}

    @property
    def id(self) -> str:
        return self._job.id

    @property
    def account(self) -> str:
        return self._job.account

    @property
    def attempt(self) -> int:
        """Which run this is, counting failures: 1 for the first."""
        return self._job.attempts + 1

    @property
    def correlation_id(self) -> str | None:
        return self._job.correlation_id

    @property
    def resume_point(self) -> str | None:
        """The checkpoint that an earlier run saved last."""
        return self._job.checkpoint

    @property
    def resume_data(self) -> Any:
        """The data saved with it."""
        return self._job.resume_data

    async def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Runs the function and stores its result; on a resumed job, or called again, the stored result is returned.

        A plain function runs in a thread.
        """
        async with self._running.setdefault(name, asyncio.Lock()):
            if name not in self._steps:
                is_async = inspect.iscoroutinefunction(function)
                result = await (function(*args) if is_async else asyncio.to_thread(function, *args))
                self._steps[name] = await self._operations.save_step(self._lease, name, result)
            return self._steps[name]

    async def checkpoint(self, name: str, *, progress: int = 0, data: Any = None) -> None:
        """Stores where the job can go on from, with its data, in one act."""
        await self._operations.checkpoint(self._lease, name, progress=progress, data=data)
