"""What is measured. Each measurement has a fresh database, and is thrown away if the peer did not do its work."""

from __future__ import annotations

import asyncio
import gc
import math
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from .databases import Kind
from .peer import Peer, Tally, Wrong
from .starts import Heard, waits
from .worker_group import GroupResult, worker_group
from .workload import CALLERS, Numbers, Size

LONGEST_S: Final = 300.0
"""A measurement that takes longer is given up: something hangs."""
SERVED: Final = ("PostgreSQL",)
"""Databases that are made for several processes at once."""


@dataclass(frozen=True)
class Sample:
    """One figure: jobs per second, or where it is a wait that is measured, how often its p50 fits into a second;
    processor time per job of the process that works, or of all that do, which other work on the machine hardly moves;
    and where somebody waited, for how long."""

    per_second: float
    cpu_us: float
    p50_ms: float | None = None
    p99_ms: float | None = None


class Watch:
    """Runs from when it is made, with no garbage left over from what came before."""

    def __init__(self) -> None:
        gc.collect()
        self._cpu_at = time.process_time()
        self._began_at = time.monotonic()

    def sample(
        self,
        jobs: int,
        *,
        ended_at: float | None = None,
        waits: list[float] | None = None,
        cpu_s: float | None = None,
    ) -> Sample:
        """`cpu_s` is that of other processes, if they did the work."""
        took_s = (time.monotonic() if ended_at is None else ended_at) - self._began_at
        cpu_us = (time.process_time() - self._cpu_at if cpu_s is None else cpu_s) / jobs * 1_000_000
        return Sample(jobs / took_s, cpu_us, *(_p50_p99_ms(waits) if waits else ()))

    def wait(self, waits: list[float], cpu_s: float | None = None) -> Sample:
        """The figure is how long one waited."""
        found = self.sample(len(waits), waits=waits, cpu_s=cpu_s)
        return replace(found, per_second=1 / statistics.median(waits))


def _p50_p99_ms(waits: list[float]) -> tuple[float, float]:
    return statistics.median(waits) * 1_000, sorted(waits)[int(len(waits) * 0.99)] * 1_000


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
        tally = Tally()
        await self.peer.finish_all(tally, _known(self.waiting))
        self.finished += tally.count
        return tally

    @property
    def waiting(self) -> int:
        return self.numbers.used - self.finished

    async def warm_up(self) -> None:
        await self.fill(self.share(self.size.warm_up))
        await self.kind.settle(self.url)
        await self.empty()

    async def full_queue(self) -> int:
        """Warm, with the measurement's jobs waiting; how many those are."""
        await self.warm_up()
        return await self.fill_up()

    async def fill_up(self) -> int:
        count = self.share(self.size.jobs)
        await self.fill(count)
        await self.kind.settle(self.url)
        return count

    def ended_apart(self, result: GroupResult) -> None:
        self.finished += result.count
        self.peer.ended_apart += result.count

    def share(self, count: int) -> int:
        return math.ceil(count * self.peer.share)


@dataclass(frozen=True)
class Measurement:
    """Something to measure: its key in the results, what it is, and how."""

    key: str
    title: str
    take: Callable[[Trial], Awaitable[Sample]]
    databases: tuple[str, ...] = ("PostgreSQL", "SQLite")

    @property
    def takes_many(self) -> bool:
        """Whether many jobs are taken, so that how a peer is set for that matters."""
        return self.key.startswith(("life", "claim", "work"))

    @property
    def is_wait(self) -> bool:
        """Whether its figure is a wait and no rate."""
        return self.key.startswith("latency")


def measurements() -> tuple[Measurement, ...]:
    return (
        *(Measurement(f"submit_{n}", f"submit, {_callers(n)}", _submit(n)) for n in CALLERS),
        *(Measurement(f"life_{n}", f"whole life, {_callers(n)}", _life(n)) for n in CALLERS),
        Measurement("bulk", "submit in bulk", _bulk),
        Measurement("claim_finish", "claim and finish", _claim_finish),
        Measurement("work", "worker, no-op handler", _work),
        Measurement("work_apart_1", "1 worker process", _work_apart(1)),
        Measurement("work_apart_2", "2 worker processes", _work_apart(2), SERVED),
        Measurement("latency", "submit to handler, one process", _latency),
        Measurement("latency_apart", "submit to handler, two processes", _latency_apart, SERVED),
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
        tally, last = Tally(), asyncio.get_running_loop().create_future()
        watch = Watch()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(trial.peer.finish_all(tally, last))
            submitted = len(await trial.call(callers))
            last.set_result(submitted)
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
    async with trial.peer.working(tally):
        await tally.reach(waiting)
    _all_done(tally, waiting)
    trial.finished += tally.count
    return watch.sample(tally.count, ended_at=tally.last_at)


def _work_apart(workers: int) -> Callable[[Trial], Awaitable[Sample]]:
    """The same in processes of their own, which are warm and connected; it begins when they are told to work."""

    async def take(trial: Trial) -> Sample:
        async with worker_group(trial.peer, trial.url, workers) as group:
            await trial.fill(trial.share(trial.size.warm_up))
            await trial.kind.settle(trial.url)
            trial.ended_apart(await group.empty(trial.waiting))
            waiting = await trial.fill_up()
            watch = Watch()
            result = await group.empty(waiting)
            trial.ended_apart(result)
            return watch.sample(waiting, ended_at=result.last_at, cpu_s=result.cpu_s)

    return take


async def _latency(trial: Trial) -> Sample:
    """One job after the other, each as soon as the one before has ended, for a worker in this process."""
    await trial.warm_up()
    tally, heard = Tally(), Heard()
    trial.peer.began = heard.began
    before = trial.numbers.used
    watch = Watch()
    async with trial.peer.working(tally):
        found = await waits(trial.peer, trial.numbers, trial.size.waits, heard.started_at)
        figure = watch.wait(found)
        await tally.reach(trial.numbers.used - before)
    trial.finished += tally.count
    return figure


async def _latency_apart(trial: Trial) -> Sample:
    """The same for a worker in a process of its own."""
    await trial.warm_up()
    async with worker_group(trial.peer, trial.url, 1) as group:
        await group.begin(tells=True)
        watch = Watch()
        found = await waits(trial.peer, trial.numbers, trial.size.waits, group.started_at)
        await group.reach(trial.waiting)
        result = await group.end()
        trial.ended_apart(result)
        return watch.wait(found, result.cpu_s)


def _all_done(tally: Tally, expected: int) -> None:
    if tally.count != expected:
        raise Wrong(f"{tally.count} jobs ended instead of {expected}")


def _known(count: int) -> asyncio.Future[int]:
    known: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    known.set_result(count)
    return known
