"""The renewer: sends heartbeats for a worker's leases from a separate thread, over a separate connection.

A handler that blocks the event loop therefore loses neither its own lease nor those of its neighbours.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Final

from msgspec import Struct

from ..backoff import away_pause_s
from ..engine.views import Lease
from ..errors import Refused
from ..futures import fail, wake
from ..operations import LeaseOperations
from ..store.base import Unavailable
from .run import facts_of

log = logging.getLogger("ficha.worker")

OpenOperations = Callable[[], AbstractAsyncContextManager[LeaseOperations]]
"""Opens the operations of the renewer's thread."""

OVERDUE_S: Final = 1.0
"""How far a run is beyond its timeout when the event loop must be blocked, because the loop has not ended it."""


class KeptLease(Struct, frozen=True, eq=False, gc=False):
    """A lease to renew, and when its run times out, by this machine's clock."""

    lease: Lease
    ends_at: float


class Renewer:
    """Renews each lease from `keep` until `forget`.

    open_operations: opens the thread's operations; None renews on the event loop, for a database in memory.
    register: called on the thread at the start and in each round, to report that the worker is alive. lost: called on
    the loop with each lost lease. hung: called on the thread when a handler has blocked the loop beyond its timeout,
    after its job was failed. gives_up: whether to stop waiting for an unreachable database at the start.
    """

    def __init__(
        self,
        operations: LeaseOperations,
        open_operations: OpenOperations | None,
        *,
        interval_s: float,
        register: Callable[[LeaseOperations], Awaitable[None]],
        lost: Callable[[Lease, Refused], None],
        hung: Callable[[], None] | None = None,
        gives_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self._operations = operations
        self._open_operations = open_operations
        self._interval_s = interval_s
        self._register = register
        self._lost = lost
        self._hung = hung
        self._gives_up = gives_up
        self._is_cancelled = False
        self._kept: dict[str, KeptLease] = {}
        self._loop = asyncio.get_running_loop()
        self._loop_answered_at = time.monotonic()

    def keep(self, lease: Lease, timeout_s: float) -> None:
        self._kept[lease.job_id] = KeptLease(lease, time.monotonic() + timeout_s)

    def forget(self, lease: Lease) -> None:
        kept = self._kept.get(lease.job_id)
        if kept is not None and kept.lease is lease:
            self._kept.pop(lease.job_id, None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Renews leases until the block ends."""
        if self._open_operations is None:
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
            self._is_cancelled = True
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
                self._tell(fail, started, error)
            else:
                log.exception("the renewer failed; leases are no longer renewed")
        finally:
            self._tell(wake, ended)

    def _tell(self, callback: Callable[..., object], *args: object) -> None:
        """Calls back on the worker's loop, which may be closed by now if the worker was cancelled while it started."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)

    async def _main(self, started: asyncio.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
        assert self._open_operations is not None
        stop = asyncio.Event()
        async with AsyncExitStack() as stack:
            operations = await self._opened(stack, self._open_operations)
            self._loop.call_soon_threadsafe(started.set_result, (asyncio.get_running_loop(), stop))
            await self._renew(operations, stop)

    async def _opened(self, stack: AsyncExitStack, open_operations: OpenOperations) -> LeaseOperations:
        """Opens the thread's operations, and waits for a database that is unreachable."""
        tries = 0
        while True:
            try:
                return await stack.enter_async_context(open_operations())
            except Unavailable as error:
                if self._is_cancelled or self._gives_up():
                    raise
                log.warning("the renewer waits for the database: %s", error)
            tries += 1
            await asyncio.sleep(away_pause_s(tries))

    async def _renew(self, operations: LeaseOperations, stop: asyncio.Event) -> None:
        await self._register(operations)
        while not await _set_within(stop, self._interval_s):
            self._loop.call_soon_threadsafe(self._loop_answers)
            # This copy is atomic: the loop's thread cannot change the dict half-way.
            kept = list(self._kept.values())
            await self._end_overdue(operations, kept)
            # Together, so that they share one commit group.
            await asyncio.gather(self._heartbeat(operations, [held.lease for held in kept]), self._register(operations))

    async def _heartbeat(self, operations: LeaseOperations, leases: list[Lease]) -> None:
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

    def _loop_answers(self) -> None:
        self._loop_answered_at = time.monotonic()

    async def _end_overdue(self, operations: LeaseOperations, kept: list[KeptLease]) -> None:
        """Times out runs whose blocked event loop cannot: the jobs fail and are refunded, and their slots are free."""
        overdue = [held for held in kept if time.monotonic() - held.ends_at >= OVERDUE_S]
        blocked_s = time.monotonic() - self._loop_answered_at
        if not overdue or blocked_s < self._interval_s:
            return
        # Perhaps the whole process was suspended: a loop that is not blocked answers within a moment.
        asked_at = time.monotonic()
        self._loop.call_soon_threadsafe(self._loop_answers)
        await asyncio.sleep(OVERDUE_S)
        if self._loop_answered_at >= asked_at:
            return
        for held in overdue:
            try:
                await operations.time_out(held.lease)
                self.forget(held.lease)
            except Exception as error:
                known = facts_of(held.lease).log_fields("running", blocked_s)
                log.warning("job %s could not be timed out: %s", held.lease.job_id, error, extra=known)
        names = ", ".join(held.lease.job_id for held in overdue)
        log.error(
            "a handler has blocked the event loop for %.0f s, and these jobs ran out of time: %s. Make it a plain "
            'function, which runs in a thread, or declare it with isolation="process".',
            blocked_s,
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
    """Stops a renewer whose caller was cancelled while it started."""
    if started.exception() is None:
        loop, stop = started.result()
        loop.call_soon_threadsafe(stop.set)
