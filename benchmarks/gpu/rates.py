"""The two rates that are compared: a bare loop over the calls, and a worker that is given the same calls as jobs."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from ficha import Ficha, Lease, Plan, Refused, SubmitRequest, ThreadJobContext
from ficha.core.commands import Ending
from ficha.core.outcomes import Finished
from ficha.store.postgres import PostgresStore

from ..databases import Kind
from ..peer import Tally, Wrong
from .work import PICTURES, Model, Shape

POOL: Final = "default"
ACCOUNTS: Final = 50
PLENTY: Final = 1_000_000_000
SUBMITTED_AT_ONCE: Final = 500
GRACE_S: Final = 30.0


class Picture(BaseModel):
    """The payload of a job."""

    number: int


@dataclass
class Calls:
    """What the handler saw.

    began_at: when the first call began, its thread set up.
    idle_s: for how long no call was under way between the first and the last.
    sizes: jobs of each call. threads: those that were set up.
    """

    began_at: float = 0.0
    idle_s: float = 0.0
    sizes: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    _under_way: int = 0
    _idle_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, shape: Shape) -> Model:
        model = shape.load()
        with self._lock:
            self.threads.append(threading.get_ident())
        return model

    def begin(self, size: int) -> None:
        with self._lock:
            now = time.monotonic()
            self.began_at = self.began_at or now
            if self._under_way == 0 and self._idle_at:
                self.idle_s += now - self._idle_at
            self._under_way += 1
            self.sizes.append(size)

    def end(self) -> None:
        with self._lock:
            self._under_way -= 1
            self._idle_at = time.monotonic()


@dataclass(frozen=True)
class Rate:
    """Pictures a second through a worker, and what the handler saw."""

    per_second: float
    calls: Calls
    seconds: float


def bare_rate(shape: Shape, seconds: float) -> float:
    """Pictures a second in a loop that does nothing else."""
    model = shape.load()
    began_at = time.monotonic()
    for done in itertools.count(1):
        model([(done * shape.batch + place) % PICTURES for place in range(shape.batch)])
        spent_s = time.monotonic() - began_at
        if spent_s >= seconds:
            return done * shape.batch / spent_s
    raise AssertionError


async def worker_rate(
    kind: Kind, shape: Shape, jobs: int, *, max_calls: int | None, calls_held: int | None = None
) -> Rate:
    """Pictures a second through a worker in this process: from the begin of the first call until the end of the last
    job is durable."""
    async with kind.fresh() as url:
        if url.startswith("postgresql:"):
            await PostgresStore(url).migrate()
        app = _CountingFicha(url, plans=[Plan("pro")])
        calls = Calls()

        @app.tool(jobs_per_call=shape.batch, max_calls=max_calls, setup=lambda: calls.load(shape), cost=1)
        def upscale(jobs: list[ThreadJobContext], payloads: list[Picture]) -> list[float]:
            calls.begin(len(jobs))
            found = jobs[0].setup([payload.number for payload in payloads])
            calls.end()
            return found  # type: ignore[no-any-return]

        async with app:
            await _fill(app, jobs)
            await kind.settle(url)
            app.tally = Tally()
            worker = app.worker([POOL], concurrency=min(1_000, shape.batch * (calls_held or shape.calls_held)))
            running = asyncio.create_task(worker.run())
            reached = asyncio.create_task(app.tally.reach(jobs))
            await asyncio.wait([running, reached], return_when=asyncio.FIRST_COMPLETED)
            worker.stop(GRACE_S)
            await running
            reached.cancel()
            await _check(app, jobs)
            spent_s = app.tally.last_at - calls.began_at
            return Rate(jobs / spent_s, calls, spent_s)


class _CountingFicha(Ficha):
    """Sees when the ends of jobs were committed."""

    tally: Tally

    async def end_many(self, ends: Iterable[tuple[Lease, Ending]]) -> list[Finished | Refused]:
        answers = await super().end_many(ends)
        self.tally.add(sum(isinstance(answer, Finished) for answer in answers))
        return answers


async def _fill(app: Ficha, jobs: int) -> None:
    names = [f"account-{number}" for number in range(ACCOUNTS)]
    await asyncio.gather(*(app.open_account(name, credits=PLENTY) for name in names))
    for start in range(0, jobs, SUBMITTED_AT_ONCE):
        numbers = range(start, min(jobs, start + SUBMITTED_AT_ONCE))
        answers: Sequence[Any] = await app.submit_many(
            [
                SubmitRequest(tool="upscale", payload={"number": number % PICTURES}, account=names[number % ACCOUNTS])
                for number in numbers
            ]
        )
        for answer in answers:
            if isinstance(answer, Refused):
                raise answer


async def _check(app: Ficha, jobs: int) -> None:
    found = (await app.workers()).items[0]
    if (found.claimed, found.completed) != (jobs, jobs):
        raise Wrong(f"of {jobs} jobs, {found.claimed} were claimed and {found.completed} completed")


def set_switch_interval(milliseconds: float | None) -> None:
    """How soon a thread that waits for the GIL makes the one that has it give it up; None leaves Python's 5 ms."""
    if milliseconds is not None:
        sys.setswitchinterval(milliseconds / 1_000)
