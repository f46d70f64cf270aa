"""Machines: each runs one process at a time, a server or a worker, and starts a new one after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final

import msgspec

from ficha import Webhooks
from ficha.app import Ficha
from ficha.core import commands as c
from ficha.core.records import Awaiting, Job
from ficha.errors import Refused
from ficha.providers import ProviderError, ProviderFailed, ProviderSucceeded, ProviderWorking
from ficha.store.base import StoreError

from .application import LEASE_S, Provider, simulated_app
from .database import IDLE_S, Database
from .decisions import Decisions
from .loop import Process, VirtualLoop
from .provider_sites import ProviderSite
from .store import SimulatedStore
from .trace import Trace

HOLD_S: Final = 5.0
"""How long a job is held whose provider is asked: so short that processes stand still for longer."""

Duty = Callable[["Machine", Ficha], Awaitable[None]]


class Lost(Exception):
    """A call over the network has no answer. It may have been carried out."""


class Machine:
    """One host. `duty` is what its process does once the application is open."""

    def __init__(
        self,
        name: str,
        duty: Duty,
        loop: VirtualLoop,
        database: Database,
        decisions: Decisions,
        random: Random,
        provider: Provider,
        trace: Trace,
        sites: Sequence[ProviderSite] = (),
        webhooks: Webhooks | None = None,
    ) -> None:
        self.name = name
        self.app: Ficha | None = None
        self.process = Process(name)
        self.buried: list[Process] = []
        """Every process that ever ran here."""
        self._duty = duty
        self._loop = loop
        self._database = database
        self._decisions = decisions
        self._random = random
        self._provider = provider
        self._trace = trace
        self._sites = sites
        self._webhooks = webhooks
        self._calls: set[asyncio.Future[Any]] = set()
        """Those whose caller still waits."""
        self._served: set[asyncio.Future[Any]] = set()
        """Those that its process is carrying out, whether or not somebody waits."""
        self._boots = 0
        self.boot()

    def boot(self) -> None:
        self._boots += 1
        skew_s = self._random.uniform(-1, 1) * self._database.faults.skew_s
        self.process = Process(f"{self.name}#{self._boots}", skew_s=skew_s)
        self.buried.append(self.process)
        self.app = None
        self._main_task = self._loop.create_task(self._main(self.process), context=self.process.context)

    async def shut_down(self) -> None:
        """In good order, as a deploy does it: first the duty ends, then the application."""
        app, self.app = self.app, None
        self._main_task.cancel()
        await asyncio.gather(self._main_task, return_exceptions=True)
        if app is not None:
            await app.close(grace_s=2.0)

    async def _main(self, process: Process) -> None:
        store = SimulatedStore(self._database, process, self._decisions)
        app = simulated_app(store, self._random, self._provider, self._sites, self._webhooks)
        while True:
            try:
                await app.open()
                break
            except (StoreError, Refused):
                await asyncio.sleep(1.0)
        self.app = app
        await self._duty(self, app)

    @property
    def is_up(self) -> bool:
        return self.app is not None and not self.process.is_dead and not self.process.is_stopped

    @property
    def is_serving(self) -> bool:
        return bool(self._served)

    def crash(self) -> None:
        """Its process is gone at this instant. What it had not committed is rolled back."""
        if self.process.is_dead:
            return
        self._trace.note(f"{self.process} is killed")
        self.app = None
        self._loop.kill_process(self.process)
        self._database.hang_up(self.process)
        self._database.listeners.pop(self.process, None)
        for call in sorted(self._calls, key=hash):
            if not call.done():
                call.set_exception(Lost("the server is gone"))
        self._calls.clear()
        self._served.clear()

    def stop(self, seconds: float) -> None:
        """Its process stands still for so long, and then goes on as if nothing had been."""
        process = self.process
        if process.is_dead or process.is_stopped:
            return
        self._trace.note(f"{process} stands still for {seconds:.1f} s ({seconds / LEASE_S:.1f} leases)")
        self._loop.stop_process(process)
        if seconds > IDLE_S:
            self._database.later(IDLE_S, self._idle, process)
        self._database.later(seconds, self.go_on, process)

    def _idle(self, process: Process) -> None:
        if process.is_stopped:
            self._database.hang_up(process)

    def go_on(self, process: Process) -> None:
        if not process.is_dead and process.is_stopped:
            self._trace.note(f"{process} goes on")
            self._loop.continue_process(process)

    async def call(self, act: Callable[[Ficha], Awaitable[Any]], timeout_s: float = 15.0) -> Any:
        """A caller's request over the network, which may lose it or its answer."""
        faults, random, loop = self._database.faults, self._random, self._loop
        await asyncio.sleep(random.expovariate(1.0) * faults.latency_s)
        app = self.app
        if app is None or random.random() < faults.request_lost:
            raise Lost("the request did not arrive")
        answer: asyncio.Future[Any] = loop.create_future()
        is_lost = random.random() < faults.answer_lost
        delay_s = random.expovariate(1.0) * faults.latency_s

        def deliver(result: Any) -> None:
            if not answer.done():
                if is_lost:
                    answer.set_exception(Lost("the answer did not arrive"))
                elif isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)

        async def serve() -> None:
            try:
                result = await act(app)
            except Exception as error:
                result = error
            finally:
                self._served.discard(answer)
            loop.call_later(delay_s, deliver, result, context=loop.outside.context)

        self._served.add(answer)
        loop.create_task(serve(), context=self.process.context)
        self._calls.add(answer)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise Lost("no answer in time") from None
        finally:
            self._calls.discard(answer)


async def serving(machine: Machine, app: Ficha) -> None:
    """A server has nothing to do by itself; requests and the sweeper come."""


def working(random: Random, trace: Trace, pools: list[str] | None = None) -> Duty:
    """A worker, with restarts in good order now and then, as a deploy does them."""

    async def duty(machine: Machine, app: Ficha) -> None:
        rounds = 0
        while True:
            rounds += 1
            worker = asyncio.create_task(
                app.run_worker(pools, concurrency=random.choice((1, 2, 4)), worker=f"{machine.name}.{rounds}")
            )
            try:
                await asyncio.wait({worker}, timeout=random.uniform(5, 60))
            finally:
                trace.note(f"{machine.process} is asked to stop")
                worker.cancel()
                await asyncio.gather(worker, return_exceptions=True)
            if not worker.cancelled() and worker.exception() is not None:
                trace.fail(f"the worker of {machine.process} ended with {worker.exception()!r}")

    return duty


def dawdling(random: Random) -> Duty:
    """A worker that does everything by hand and badly: it pauses longer than its lease, then writes all the same."""

    async def duty(machine: Machine, app: Ficha) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(random.uniform(0.2, 2))
                try:
                    leases = await app.claim(("gpu", "cpu"), limit=random.choice((1, 1, 3)), worker=machine.name)
                except (StoreError, Refused):
                    continue
                for lease in leases:
                    tasks.create_task(dawdle(app, lease))

    async def dawdle(app: Ficha, lease: Any) -> None:
        for _ in range(random.randint(1, 5)):
            await asyncio.sleep(random.choice((0.0, 0.3, LEASE_S * 0.9, LEASE_S * 1.2, LEASE_S * 3)))
            try:
                await _word(app, lease)
            except (StoreError, Refused):
                continue

    async def _word(app: Ficha, lease: Any) -> None:
        match random.randrange(10):
            case 0:
                await app.start(lease)
            case 1:
                await app.heartbeat(lease)
            case 2:
                await app.checkpoint(lease, "dawdled", progress=10, data={"by": lease.worker})
            case 3:
                await app.save_step(lease, "part 0", {"by": lease.worker, "epoch": lease.epoch})
            case 4:
                await app.fail(lease, "it did not work")
            case 5:
                await app.retry(lease, random.random() * 2)
            case 6:
                await app.accept(lease, f"ref-{lease.epoch}")
            case 7:
                # Everything at once: of all these at most one may be told that it ended the job.
                await asyncio.gather(
                    app.finish(lease, {"by": lease.worker}),
                    app.fail(lease, "no", final=True),
                    app.give_up(lease, "enough"),
                    app.finish(lease, {"by": "another"}, delivered=1, of=2),
                    return_exceptions=True,
                )
            case _:
                await app.finish(lease, {"by": lease.worker, "epoch": lease.epoch})

    return duty


def collecting_late(random: Random) -> Duty:
    """Asks providers as a worker does, and says what it heard long after that."""

    async def duty(machine: Machine, app: Ficha) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(random.uniform(0.1, 1.0))
                try:
                    due = await app.due_polls(sorted(app.providers), 3)
                    held = [await app.hold_poll(poll.job_id, HOLD_S) for poll in due if not poll.wait_ms]
                except (StoreError, Refused):
                    continue
                for job in held:
                    if job is not None:
                        tasks.create_task(collect(app, job))

    async def collect(app: Ficha, job: Job) -> None:
        assert isinstance(job.place, Awaiting)
        provider, ref = app.providers[job.spec.tool], job.place.ref
        http = app.provider_http(provider)
        try:
            status = await provider.status(http, ref)
            await asyncio.sleep(random.choice((0.0, HOLD_S * 0.9, HOLD_S * 1.5, HOLD_S * 2, HOLD_S * 4)))
            match status:
                case ProviderWorking():
                    assert job.place.poll_at is not None
                    await app.end_poll(job.id, job.place.poll_at, provider.poll_s)
                case ProviderFailed(error, final):
                    await app.finish_awaiting(job, c.Failed(error, final, for_user=True))
                case ProviderSucceeded(result):
                    made = result or await provider.result(http, ref)
                    text = msgspec.json.encode({"output": made.output, "files": []}).decode()
                    await app.finish_awaiting(job, c.Completed(text))
        except (StoreError, Refused, ProviderError):
            return

    return duty
