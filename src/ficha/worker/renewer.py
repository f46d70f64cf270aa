"""The renewer: keeps the leases of a worker alive from a thread of its own, with a connection of its own.

A handler that blocks the event loop then does not lose its lease; nor do those that run beside it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from msgspec import Struct

from ..engine.views import Lease
from ..errors import Refused
from ..operations import LeaseOperations

log = logging.getLogger("ficha.worker")

Lifeline = Callable[[], AbstractAsyncContextManager[LeaseOperations]]
"""Opens the operations that the renewer's thread uses for itself."""

OVERDUE_S: Final = 1.0
"""A run so far beyond its time that its own loop should have ended it: that loop is blocked."""


class Kept(Struct, frozen=True, eq=False, gc=False):
    """A lease that is kept alive, and when its run is over its time, by this machine's clock."""

    lease: Lease
    ends_at: float


class Renewer:
    """Renews what `keep` was called for, until it is `let_go`.

    lifeline: opens the thread's own operations; None renews on the loop itself, for databases in the process's memory.
    seen: called on the thread at the start and in each round, to say that the worker is there. lost: called on the loop
    with each lease that was lost. hung: called on the thread when a handler blocks the loop beyond its time, after that
    job was failed.
    """

    def __init__(
        self,
        operations: LeaseOperations,
        lifeline: Lifeline | None,
        *,
        interval_s: float,
        seen: Callable[[LeaseOperations], Awaitable[None]],
        lost: Callable[[Lease, Refused], None],
        hung: Callable[[], None] | None = None,
    ) -> None:
        self._operations = operations
        self._lifeline = lifeline
        self._interval_s = interval_s
        self._seen = seen
        self._lost = lost
        self._hung = hung
        self._kept: dict[str, Kept] = {}
        self._loop = asyncio.get_running_loop()
        self._seen_at = time.monotonic()

    def keep(self, lease: Lease, timeout_s: float) -> None:
        self._kept[lease.job_id] = Kept(lease, time.monotonic() + timeout_s)

    def let_go(self, lease: Lease) -> None:
        kept = self._kept.get(lease.job_id)
        if kept is not None and kept.lease is lease:
            self._kept.pop(lease.job_id, None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Renews meanwhile."""
        if self._lifeline is None:
            task = asyncio.create_task(self._renew(self._operations, asyncio.Event()), name="ficha renewer")
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            return
        started: asyncio.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = self._loop.create_future()
        ended: asyncio.Future[None] = self._loop.create_future()
        thread = threading.Thread(target=self._run, args=(started, ended), name="ficha renewer", daemon=True)
        thread.start()
        try:
            loop, stop = await asyncio.shield(started)
        except asyncio.CancelledError:
            started.add_done_callback(_stop)
            raise
        try:
            yield
        finally:
            loop.call_soon_threadsafe(stop.set)
            await ended

    def _run(
        self,
        started: asyncio.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]],
        ended: asyncio.Future[None],
    ) -> None:
        try:
            asyncio.run(self._main(started))
        except Exception as error:
            if not started.done():
                self._loop.call_soon_threadsafe(_fail, started, error)
            else:
                log.exception("the renewer ended; leases are no longer kept alive")
        finally:
            self._loop.call_soon_threadsafe(_end, ended)

    async def _main(self, started: asyncio.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
        assert self._lifeline is not None
        stop = asyncio.Event()
        async with self._lifeline() as operations:
            self._loop.call_soon_threadsafe(started.set_result, (asyncio.get_running_loop(), stop))
            await self._renew(operations, stop)

    async def _renew(self, operations: LeaseOperations, stop: asyncio.Event) -> None:
        await self._seen(operations)
        while not await _set_within(stop, self._interval_s):
            self._loop.call_soon_threadsafe(self._answer)
            # One step of the interpreter, so that the other thread cannot change it half-way.
            kept = list(self._kept.values())
            await self._end_overdue(operations, kept)
            # At once, and so in one transaction.
            await asyncio.gather(self._beat(operations, [held.lease for held in kept]), self._seen(operations))

    async def _beat(self, operations: LeaseOperations, leases: list[Lease]) -> None:
        if not leases:
            return
        try:
            answers = await operations.heartbeat(leases)
        except Exception as error:
            log.warning("no heartbeat: %s", error)
            return
        for lease, answer in zip(leases, answers, strict=True):
            if isinstance(answer, Refused) and not answer.retryable:
                self._loop.call_soon_threadsafe(self._lost, lease, answer)

    def _answer(self) -> None:
        self._seen_at = time.monotonic()

    async def _end_overdue(self, operations: LeaseOperations, kept: list[Kept]) -> None:
        """Ends runs whose own loop is blocked and cannot: they are failed and refunded, and their slot is free."""
        overdue = [held for held in kept if time.monotonic() - held.ends_at >= OVERDUE_S]
        silent_s = time.monotonic() - self._seen_at
        if not overdue or silent_s < self._interval_s:
            return
        # The whole process may have been asleep: a loop that is not blocked answers when it is asked.
        asked_at = time.monotonic()
        self._loop.call_soon_threadsafe(self._answer)
        await asyncio.sleep(OVERDUE_S)
        if self._seen_at >= asked_at:
            return
        for held in overdue:
            try:
                await operations.time_out(held.lease)
                self.let_go(held.lease)
            except Exception as error:
                log.warning("job %s could not be ended: %s", held.lease.job_id, error)
        names = ", ".join(held.lease.job_id for held in overdue)
        log.error(
            "a handler has blocked the event loop for %.0f s, and these jobs ran out of time: %s. Make it a plain "
            'function, which runs in a thread, or declare it with isolation="process".',
            silent_s,
            names,
        )
        if self._hung is not None:
            self._hung()


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _stop(started: asyncio.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    """Ends a renewer that nobody waits for any more."""
    if started.exception() is None:
        loop, stop = started.result()
        loop.call_soon_threadsafe(stop.set)


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _fail(future: asyncio.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
