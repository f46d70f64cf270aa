"""The worker: claims as many jobs as it can run, runs them, and stops each run whose lease is lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

from ..backoff import away_pause_s
from ..core.pools import CONCURRENCY
from ..engine.views import Lease
from ..errors import Overloaded, Refused
from ..futures import wake
from ..operations import LeaseOperations, StandingClaim
from ..store.base import StoreError
from ..tools import Tool
from . import active_runs
from .active_runs import ActiveRuns
from .due_runner import DueRunner
from .executor import Executor
from .registration import Registration
from .renewer import OpenOperations, Renewer
from .setups import Setups
from .starter import Starter
from .suspect_room import LOOK_S, SuspectRoom
from .wake_event import WakeEvent

log = logging.getLogger("ficha.worker")

POLL_S = 5.0
"""Wake-ups are only hints, so a worker also polls this often."""
CANCEL_CHECK_S: Final = 1.0
"""The shortest time between two checks of held jobs, after hints that one may be cancelled."""
DUE_SLACK_S: Final = 0.001
"""How long after a job falls due a burst looks: a timer may end a little early."""
FOREVER_S: Final = 86_400.0


class WorkerLoop:
    """Runs handlers of the given tools for the given pools, `concurrency` at a time.

    open_operations: opens the operations of the renewer's thread; None renews on the event loop. hung: called when a
    handler has blocked the loop beyond its timeout. starter: what starts work at providers. beside: what runs beside
    the jobs, in the order in which a burst ends: the results of providers, hooks, webhooks.
    """

    def __init__(
        self,
        operations: LeaseOperations,
        tools: Mapping[str, Tool],
        *,
        pools: Sequence[str],
        concurrency: int,
        name: str,
        heartbeat_s: float,
        open_operations: OpenOperations | None = None,
        hung: Callable[[], None] | None = None,
        starter: Starter | None = None,
        beside: Sequence[DueRunner] = (),
    ) -> None:
        self._operations = operations
        self._tools = tools
        self._pools = tuple(pools)
        self._concurrency = concurrency
        self._name = name
        self._heartbeat_s = heartbeat_s
        self._open_operations = open_operations
        self._hung = hung
        self._starter = starter
        self._beside = beside
        for runner in beside:
            runner.worker = name
        self._changed = WakeEvent()
        self._stop_requested = WakeEvent()
        self._stops_at: float | None = None
        self._setups = Setups()

    @property
    def name(self) -> str:
        return self._name

    @property
    def pools(self) -> tuple[str, ...]:
        return self._pools

    @property
    def concurrency(self) -> int:
        return self._concurrency

    def stop(self, grace_s: float) -> None:
        """Stops claiming. Runs may end within the grace; the rest is handed back. May be called again."""
        at = time.monotonic() + grace_s
        self._stops_at = at if self._stops_at is None else min(at, self._stops_at)
        self._stop_requested.set()
        self._changed.set()

    async def run(self, *, burst: bool = False, due_within_s: float = 0.0, max_seconds: float | None = None) -> int:
        """Works until stopped or cancelled, and returns how many jobs it ran.

        `burst` stops it when the queue is empty and nothing falls due within `due_within_s`, `max_seconds` when that
        time is up; both finish the running jobs. Such a worker may be the only process there is, so it first sweeps.
        When cancelled, the worker hands its running jobs back to the queue.
        """
        registration = Registration(
            self._name, self._pools, self._concurrency, self._heartbeat_s, lambda: self._setups.problem
        )
        renewer = Renewer(
            self._operations,
            self._open_operations,
            interval_s=self._heartbeat_s,
            register=registration.register,
            lost=lambda lease, refused: self._runs.lose(lease, refused),
            hung=self._hung,
            gives_up=self._gives_up,
        )
        self._executor = Executor(self._name, self._setups, self._operations.limits.child_message_bytes, self._starter)
        self._runs = ActiveRuns(
            self._operations,
            self._tools,
            worker=self._name,
            concurrency=self._concurrency,
            executor=self._executor,
            renewer=renewer,
            starter=self._starter,
            changed=self._changed,
            gives_up=self._gives_up,
        )
        self._room = SuspectRoom(self._operations.engine, self._name)
        ran = 0
        async with registration.deregistering(self._operations), renewer.running():
            ends_at = float("inf") if max_seconds is None else time.monotonic() + max_seconds
            listener = asyncio.create_task(self._listen(), name="ficha cancellations")
            beside = [] if burst else [asyncio.create_task(found.run()) for found in self._beside]
            try:
                if burst or max_seconds is not None:
                    await self._operations.clear_up(ends_at - time.monotonic())
                if not burst:
                    self._set_up_tools()
                ran = await self._claim_until(ends_at, due_within_s if burst else None)
                await self._finish_runs()
                # A hook may submit further jobs, which are part of the burst; a provider may have failed one.
                while burst and self._stops_at is None and await self._drain_beside(due_within_s):
                    ran += await self._claim_until(ends_at, due_within_s)
                    await self._finish_runs()
                return ran
            finally:
                for task in (listener, *beside):
                    task.cancel()
                try:
                    await self._hand_back()
                    await self._executor.close()
                except asyncio.CancelledError:
                    # Whoever cancels a second time does not wait for what is under way beside the jobs.
                    for task in beside:
                        task.cancel()
                    raise
                finally:
                    await asyncio.gather(listener, *beside, return_exceptions=True)

    async def _drain_beside(self, due_within_s: float) -> int:
        """Runs what is due beside the jobs; returns how much that was."""
        return sum([await runner.drain(due_within_s) for runner in self._beside])

    # Setting up

    def _set_up_tools(self) -> None:
        """Sets tools up before their pools are claimed from, so that no job waits for it. (A burst may find no job.)"""
        for tool in self._tools.values():
            if tool.setup is not None and tool.pool in self._pools:
                self._setups.begin(tool)
                self._runs.spawn(self._set_up(tool))

    async def _set_up(self, tool: Tool) -> None:
        await self._executor.set_up(tool)
        self._changed.nudge()
        self._stop_requested.nudge()

    # Claiming

    async def _claim_until(self, ends_at: float, due_within_s: float | None) -> int:
        """Claims and begins jobs; with `due_within_s`, until there are no more."""
        ran = tries = 0
        is_drained = is_swept = False
        while self._stops_at is None and time.monotonic() < ends_at:
            self._changed.clear()
            heard = self._operations.work_heard(self._pools)
            pools = self._setups.open_pools(self._pools)
            if not self._runs.is_idle or self._room.is_made:
                await self._room.look(pools)
            free = self._free_slots()
            if due_within_s is not None and not pools and self._runs.is_idle:
                break
            if free <= 0 or not pools:
                most_s = LOOK_S if self._room.is_made else FOREVER_S
                await self._wait(min(ends_at - time.monotonic(), self._setups.next_try_s(), most_s), None)
                continue
            if not is_drained:
                leases = await self._claim(pools, free)
                if leases is None:
                    tries += 1
                    await self._wait(min(away_pause_s(tries), ends_at - time.monotonic()), None)
                    continue
                tries = 0
                ran += len(leases)
                if leases:
                    is_swept = False
                if len(leases) == free:
                    continue
                if due_within_s is not None and not leases and self._runs.is_idle:
                    if not is_swept:
                        # What has become due since is looked at once more before the end.
                        is_swept = True
                        await self._operations.clear_up(ends_at - time.monotonic())
                        continue
                    if self._operations.work_heard(self._pools) != heard:
                        continue  # A job became ready while the claim was under way.
                    due_s = self._operations.next_due_s(self._pools)
                    if due_s is None or due_s > min(due_within_s, ends_at - time.monotonic()):
                        break
                    is_swept = False
                    await self._wait(due_s + DUE_SLACK_S, heard)
                    continue
            if pools != self._setups.open_pools(self._pools):
                continue  # Another pool was opened during the claim.
            # The queue is empty for now. A finished job may free a slot of a pool, but that sends a hint as well.
            free = 0 if self._room.is_made else self._free_slots()
            wait_s = min(POLL_S, ends_at - time.monotonic(), self._setups.next_try_s())
            granted = await self._wait_for_work(pools, free, wait_s, heard, for_ends=due_within_s is not None)
            ran += granted
            # A hint that came meanwhile may be of work that the commit group of these leases did not see; and a pool
            # that was opened meanwhile was no part of their claim.
            is_same = (
                self._operations.work_heard(self._pools) == heard and self._setups.open_pools(self._pools) == pools
            )
            is_drained = 0 < granted < free and is_same
        return ran

    async def _wait_for_work(
        self, pools: tuple[str, ...], free: int, most_s: float, heard: int, *, for_ends: bool
    ) -> int:
        """Waits for a hint of work, or for leases granted along with a submit of this process; returns their number."""
        standing = self._operations.stand(pools, limit=free, worker=self._name) if free > 0 else None
        try:
            await self._wait(most_s, heard, standing, for_ends=for_ends)
        finally:
            leases: list[Lease] | None = None
            if standing is not None and not standing.withdraw():
                is_there = standing.answered.done()
                leases = self._begin_all(standing.granted) if is_there else await self._leases(standing.leases())
        return len(leases or ())

    def _gives_up(self) -> bool:
        """Whether the time to wait for an unreachable database is up."""
        return self._stops_at is not None and time.monotonic() > self._stops_at + active_runs.STOPPING_S

    def _free_slots(self) -> int:
        """How many more jobs may be claimed now: none beside suspects, or while room is made for them."""
        is_closed = self._runs.has_suspects or (self._room.is_made and not self._runs.is_idle)
        return 0 if is_closed else self._runs.free_slots()

    async def _claim(self, pools: tuple[str, ...], free: int) -> list[Lease] | None:
        """Claims and begins jobs; None if the claim failed."""
        leases: list[Lease] | None = []
        if not self._room.is_made:
            claim = self._operations.claim(pools, limit=free, worker=self._name, starts=True, keeps_apart=True)
            leases = await self._leases(claim)
        if leases == [] and self._runs.is_idle:
            leases = await self._leases(self._room.claim(pools, free))
        return leases

    async def _leases(self, claim: Coroutine[Any, Any, list[Lease]]) -> list[Lease] | None:
        asked = asyncio.ensure_future(claim)
        try:
            await asyncio.wait([asked])
        except asyncio.CancelledError:
            # Jobs claimed but not begun would wait for their leases to expire: begin them, to be handed back below.
            await asyncio.wait([asked], timeout=active_runs.STOPPING_S)
            if asked.done() and not asked.cancelled() and asked.exception() is None:
                self._begin_all(asked.result)
            asked.cancel()
            raise
        return self._begin_all(asked.result)

    def _begin_all(self, granted: Callable[[], list[Lease]]) -> list[Lease] | None:
        """Begins each claimed job; None if the claim failed."""
        try:
            leases = granted()
        except (Overloaded, StoreError) as error:
            log.warning("no claim: %s", error)
            return None
        for lease in leases:
            self._runs.begin(lease)
        return leases

    async def _wait(
        self, most_s: float, heard: int | None, standing: StandingClaim | None = None, *, for_ends: bool = True
    ) -> None:
        """Waits until a run ended, the time is up, there may be work (with `heard`), or a stop is requested."""
        if most_s <= 0:
            return
        if heard is not None and self._operations.work_heard(self._pools) != heard:
            return
        waiter = (self._changed if for_ends else self._stop_requested).waiter()
        woken = partial(wake, waiter)
        timer = asyncio.get_running_loop().call_later(min(most_s, FOREVER_S), woken)
        if standing is not None:
            standing.answered.add_done_callback(woken)
        try:
            with nullcontext() if heard is None else self._operations.telling_of_work(self._pools, waiter):
                await waiter
        finally:
            timer.cancel()
            if standing is not None:
                standing.answered.remove_done_callback(woken)

    # Until the end

    async def _listen(self) -> None:
        """Checks the held jobs on a hint that one was cancelled, instead of at the next heartbeat."""
        heard = self._operations.cancels_heard(self._name)
        while True:
            await self._operations.wait_for_cancels(self._name, FOREVER_S, since=heard)
            heard = self._operations.cancels_heard(self._name)
            if held := [*self._runs.held()]:
                try:
                    for lease, refused in await self._operations.lost(held):
                        self._runs.lose(lease, refused)
                except (Refused, StoreError) as error:
                    log.debug("held jobs could not be checked: %s", error)
            await asyncio.sleep(CANCEL_CHECK_S)

    async def _finish_runs(self) -> None:
        """Waits for all runs to end, but after a stop no longer than the grace."""
        while not self._runs.is_idle:
            self._changed.clear()
            left_s = float("inf") if self._stops_at is None else self._stops_at - time.monotonic()
            if left_s <= 0:
                return
            await self._wait(left_s, None)

    async def _hand_back(self) -> None:
        """Stops all runs and returns their jobs to the queue, so that none waits for its lease to expire."""
        self._stops_at = min(time.monotonic(), self._stops_at or float("inf"))
        self._runs.stop_all()
        until = time.monotonic() + 2 * active_runs.STOPPING_S
        try:
            while not self._runs.is_idle and time.monotonic() < until:
                self._changed.clear()
                await self._wait(until - time.monotonic(), None)
        finally:
            # The caller may close the database next.
            self._runs.close()


def concurrency_for(tool: Tool) -> int:
    """How many jobs a worker should hold to keep the tool's calls full: those under way, and the next, which is put
    together meanwhile."""
    return max(CONCURRENCY, (tool.jobs_per_call or 0) * ((tool.max_calls or 1) + 1))
