"""What is measured. Each measurement has a fresh database, and is thrown away if the peer did not do its work."""

from __future__ import annotations

import asyncio
import gc
import math
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from .databases import Kind
from .peer import Peer, Tally, Wrong
from .workload import CALLERS, Numbers, Size

LONGEST_S: Final = 300.0
"""A measurement that takes longer is given up: something hangs."""


@dataclass(frozen=True)
class Sample:
    """One figure: jobs per second; processor time of this process per job, which other work on the machine hardly
    moves; and where callers waited for an answer, for how long."""

    per_second: float
    cpu_us: float
    p50_ms: float | None = None
    p99_ms: float | None = None


class Watch:
    """Runs from when it is made, with no garbage left over from what came before."""

    def __init__(self) -> None:
        gc.collect()
        self._cpu_at = time.process_time()
        self._began_at = time.perf_counter()

    def sample(self, jobs: int, *, ended_at: float | None = None, waits: list[float] | None = None) -> Sample:
        took_s = (time.perf_counter() if ended_at is None else ended_at) - self._began_at
        cpu_us = (time.process_time() - self._cpu_at) / jobs * 1_000_000
        if not waits:
            return Sample(jobs / took_s, cpu_us)
        p99 = sorted(waits)[int(len(waits) * 0.99)]
        return Sample(jobs / took_s, cpu_us, statistics.median(waits) * 1_000, p99 * 1_000)


@dataclass
class Trial:
    """A peer on its database, and the jobs that it has had."""

    peer: Peer
    kind: Kind
    url: str
    size: Size
    numbers: Numbers
    finished: int = 0

    async def fill(self, count: int) -> None:
        await self.peer.submit_many(self.numbers.take(count))

    async def call(self, callers: int) -> list[float]:
        """Callers submit until the time is up; how long each call took, in seconds."""
        return await self.peer.call(min(callers, self.size.most_callers), self.size.seconds, self.numbers)

    async def empty(self) -> Tally:
        """Claims and finishes all that waits."""
        tally, last = Tally(), asyncio.Event()
        last.set()
        await self.peer.finish_all(tally, last)
        self.finished += tally.count
        return tally

    async def warm_up(self) -> None:
        await self.fill(self._share(self.size.warm_up))
        await self.kind.settle(self.url)
        await self.empty()

    async def full_queue(self) -> int:
        """Warm, with the measurement's jobs waiting; how many those are."""
        await self.warm_up()
        count = self._share(self.size.jobs)
        await self.fill(count)
        await self.kind.settle(self.url)
        return count

    def _share(self, count: int) -> int:
        return math.ceil(count * self.peer.share)


@dataclass(frozen=True)
class Measurement:
    """Something to measure: its key in the results, what it is, and how."""

    key: str
    title: str
    take: Callable[[Trial], Awaitable[Sample]]

    @property
    def is_submit(self) -> bool:
        """Whether it only submits, so that the ways of taking jobs do not matter."""
        return self.key.startswith(("submit", "bulk"))


def measurements() -> tuple[Measurement, ...]:
    return (
        *(Measurement(f"submit_{n}", f"submit, {_callers(n)}", _submit(n)) for n in CALLERS),
        *(Measurement(f"life_{n}", f"whole life, {_callers(n)}", _life(n)) for n in CALLERS),
        Measurement("bulk", "submit in bulk", _bulk),
        Measurement("claim_finish", "claim and finish", _claim_finish),
        Measurement("work", "worker, no-op handler", _work),
    )


def _callers(count: int) -> str:
    return "1 caller" if count == 1 else f"{count} callers"


async def sample(measurement: Measurement, peer: Peer, kind: Kind, size: Size) -> Sample:
    """One figure on a fresh database, with the proof that all was done."""
    async with asyncio.timeout(LONGEST_S), kind.fresh(peer) as url:
        await peer.open(url)
        try:
            trial = Trial(peer, kind, url, size, Numbers())
            figure = await measurement.take(trial)
            await peer.check(trial.numbers.used, trial.finished)
            return figure
        finally:
            await peer.close()


def _submit(callers: int) -> Callable[[Trial], Awaitable[Sample]]:
    """Callers who each submit one job at a time; nobody takes the jobs."""

    async def take(trial: Trial) -> Sample:
        await trial.warm_up()
        first = trial.numbers.take(min(callers, trial.size.most_callers))
        await asyncio.gather(*(trial.peer.submit(number) for number in first))
        watch = Watch()
        waits = await trial.call(callers)
        return watch.sample(len(waits), waits=waits)

    return take


def _life(callers: int) -> Callable[[Trial], Awaitable[Sample]]:
    """The same while loops claim and finish: it ends when the last job has ended."""

    async def take(trial: Trial) -> Sample:
        await trial.warm_up()
        tally, last = Tally(), asyncio.Event()
        watch = Watch()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(trial.peer.finish_all(tally, last))
            submitted = len(await trial.call(callers))
            last.set()
        _all_done(tally, submitted)
        trial.finished += tally.count
        return watch.sample(tally.count, ended_at=tally.last_at)

    return take


async def _bulk(trial: Trial) -> Sample:
    await trial.warm_up()
    numbers = trial.numbers.take(trial.size.jobs)
    watch = Watch()
    await trial.peer.submit_many(numbers)
    return watch.sample(len(numbers))


async def _claim_finish(trial: Trial) -> Sample:
    waiting = await trial.full_queue()
    watch = Watch()
    tally = await trial.empty()
    _all_done(tally, waiting)
    return watch.sample(tally.count, ended_at=tally.last_at)


async def _work(trial: Trial) -> Sample:
    waiting = await trial.full_queue()
    tally = Tally()
    watch = Watch()
    await trial.peer.work(tally)
    _all_done(tally, waiting)
    trial.finished += tally.count
    return watch.sample(tally.count, ended_at=tally.last_at)


def _all_done(tally: Tally, expected: int) -> None:
    if tally.count != expected:
        raise Wrong(f"{tally.count} jobs ended instead of {expected}")
