"""An application on a memory store with a clock that a test moves: its jobs run to their end without waiting."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self

from msgspec import Struct

from ..app import Ficha
from ..core.cron_slots import next_slot
from ..core.outcomes import Refusal
from ..core.policy import SECOND
from ..core.records import Awaiting, Job, Parked, Ready
from ..engine.views import JobView, Lease
from ..errors import Refused
from ..operations import FileAccess
from ..operations.leases import AnyLease
from ..signing import Signer
from ..store.memory import MemoryStore
from .clock import ManualClock
from .scripted_provider import ScriptedProvider

SECRET: Final = "a sandbox keeps no secrets, and has one all the same"  # noqa: S105 (of no deployment)
PUBLIC_URL: Final = "https://sandbox.invalid"


class StepFault(Struct, frozen=True):
    """What happens when a job stores this step."""

    step: str
    error: Exception | None
    is_stored: bool
    tool: str | None


class Sandbox:
    """Opens an application, as it was declared, on an empty memory store. Tests go on using the application itself,
    so that routes and handlers that call it find it open.

    >>> import asyncio
    >>> from ficha import Ficha
    >>> app = Ficha()
    >>> @app.tool(attempts=2, backoff=60)
    ... async def greet(job, name: str) -> str:
    ...     return f"Hello {name}"
    >>> async def test():
    ...     async with Sandbox(app) as sandbox:
    ...         await app.open_account("ana")
    ...         receipt = await app.submit("greet", {"name": "Ana"}, account="ana", delay_s=3600)
    ...         await sandbox.run()
    ...         return (await app.job(receipt.job_id)).result
    >>> asyncio.run(test())
    'Hello Ana'

    clock: the application's only clock; it stands still unless `run` or a test moves it. Starts at the present.
    """

    def __init__(self, app: Ficha, clock: ManualClock | None = None) -> None:
        self.app = app
        self.clock = clock or ManualClock(time.time_ns() // 1_000)
        self._store = MemoryStore(clock=self.clock)
        self._faults: list[StepFault] = []
        self._folder: TemporaryDirectory[str]

    async def __aenter__(self) -> Self:
        app = self.app
        if app.is_open:
            raise RuntimeError("the application is open already; a sandbox opens it on a memory store by itself")
        self._before = (app._store, app._sweeps, app.file_access, app.signer, app.public_url)
        app._store, app._sweeps = self._store, False
        # So that providers can call back.
        app.signer, app.public_url = app.signer or Signer(SECRET), app.public_url or PUBLIC_URL
        # Files are removed with the sandbox, as the rows are.
        self._folder = TemporaryDirectory(prefix="ficha-sandbox-")
        app.file_access = FileAccess(f"file://{self._folder.name}", app.signer, app.public_url, app.inspection_limits)
        # Replaced on this object only, not on the class.
        vars(app)["save_step_json"] = self._save_step
        vars(app)["_fetched"] = self._fetched
        try:
            await app.open()
        except BaseException:
            self._restore()
            raise
        await self._fire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.app.close()
        finally:
            self._restore()

    def _restore(self) -> None:
        vars(self.app).pop("save_step_json", None)
        vars(self.app).pop("_fetched", None)
        app = self.app
        app._store, app._sweeps, app.file_access, app.signer, app.public_url = self._before
        self._folder.cleanup()

    async def run(self, pools: Sequence[str] | None = None) -> list[JobView]:
        """Runs jobs until all have ended, and moves the clock over schedules and backoffs instead of waiting for them.

        Returns those that have not ended and cannot start: they wait for an external provider, a paused pool or a pool
        that is not among `pools`. The clock does not move for them, nor to their deadline.

        Recurring jobs (`app.cron`) fire at each slot that the clock is moved over; the clock does not move for their
        next slots, which have no end: `advance` does that. Slots over which a test moved the clock by itself were
        missed, as if no process had run, and `missed` says what becomes of them.
        """
        while True:
            await self._fire()
            await self.app.sweep()
            await self.app.run_worker(pools, burst=True)
            await self.app.sweep()
            active = [job for job in self._store.state.jobs.values() if job.place is not None]
            if any(self._may_start(job, pools) for job in active):
                continue
            due = [job.place.due_at for job in active if type(job.place) is Parked and job.place.due_at is not None]
            if not due:
                return [await self.app.job(job.id) for job in active]
            await self._pass_time(min(due))

    async def advance(self, seconds: float) -> None:
        """Lets time pass as in a process that runs all along: recurring jobs fire at their slots, and what falls due is
        promoted or recovered. `run` then runs the jobs."""
        until = self.clock.now + round(seconds * SECOND)
        while self.clock.now < until:
            await self._pass_time(until)
        await self.app.sweep()

    async def _pass_time(self, until: int) -> None:
        """Moves the clock to the next slot of a recurring job and fires it; or until then, if none comes before."""
        now, entries = self.clock.now, self.app.cron_entries.values()
        slots = [slot for entry in entries if (slot := next_slot(entry.cron, entry.tz, now)) is not None]
        self.clock.now = max(now, min([until, *slots]))
        await self._fire()

    async def _fire(self) -> None:
        if (fire := self.app.engine.sweeper.fire_schedules) is not None:
            await fire()

    def _may_start(self, job: Job, pools: Sequence[str] | None) -> bool:
        if type(job.place) is not Ready or (pools is not None and job.spec.pool not in pools):
            return False
        pool = self._store.state.pools.get(job.spec.pool)
        held = (other for other in self._store.state.jobs.values() if type(other.place) is Awaiting)
        occupied = sum(other.spec.pool == job.spec.pool for other in held)
        return pool is None or not (pool.paused or (pool.limit is not None and occupied >= pool.limit))

    def fault(
        self, step: str, error: Exception | None = None, *, stored: bool = False, tool: str | None = None
    ) -> None:
        """Breaks the next run that has done this step; call it again for a further run.

        error: raised in the handler where it called the step. Without one, it is as if the worker's process had died:
            the job goes back to the queue, and the next run resumes.
        stored: whether the step's result was stored before that. By default it was not: the function runs again.
        tool: only a run of this tool.
        """
        self._faults.append(StepFault(step, error, stored, tool))

    async def _save_step(self, lease: AnyLease, name: str, result: Any) -> str:
        tool = lease.tool if isinstance(lease, Lease) else None
        fault = next((one for one in self._faults if one.step == name and one.tool in (None, tool)), None)
        if fault is None:
            return await Ficha.save_step_json(self.app, lease, name, result)
        self._faults.remove(fault)
        if fault.is_stored:
            await Ficha.save_step_json(self.app, lease, name, result)
        if fault.error is not None:
            raise fault.error
        await self.app.hand_back(lease, f"a test let its process die at the step {name!r}", lost=True)
        raise Refused.of(Refusal("LEASE_LOST", f"a test let the process die at the step {name!r}"))

    async def _fetched(self, url: str) -> AsyncIterator[bytes]:
        """The bytes of a provider's file: a scripted provider has them itself, and nothing is sent."""
        scripted = (one for one in self.app.providers.values() if isinstance(one, ScriptedProvider))
        data = next((one.contents[url] for one in scripted if url in one.contents), None)
        if data is not None:
            yield data
            return
        async for chunk in Ficha._fetched(self.app, url):
            yield chunk
