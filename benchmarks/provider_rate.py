"""Many jobs for a provider that takes 60 requests a minute: `python -m benchmarks.provider_rate`.

Several applications share one database, each with connections of its own, on a clock that the benchmark moves: hours of
the provider's time take a minute or two. Their callers claim jobs, take turns, send a little late, need a while and say
how it went; some die with their request out. What is measured is how many requests the busiest minute has, and how many
are out at once: no more than the limits, whatever happens.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from msgspec import Struct

from ficha import Ficha, JobContext, Lease, Plan
from ficha.core.commands import EndTurn, TakeTurn
from ficha.core.outcomes import TurnTaken
from ficha.core.policy import SECOND, TurnTerms
from ficha.operations.turns import terms_of
from ficha.providers import Provider
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from ficha.testing import ManualClock

from .databases import Kind, databases

MINUTE: Final = 60 * SECOND
TOGETHER: Final = SECOND // 20
"""Callers that act within this time race each other."""
DIE: Final = 0.01
"""The share of callers that die with their request out."""


class Figures(Struct):
    """What came of it: requests in all and in the busiest minute, the most at once, virtual and real seconds."""

    sent: int
    busiest_minute: int
    most_at_once: int
    virtual_s: float
    real_s: float
    refused: int


class Caller(Struct, order=True):
    """One that sends requests: when it acts next, the job that it holds, and its request, if one is out."""

    at: int
    number: int
    lease: Lease | None = None
    turn_id: str | None = None


class Race:
    """So many callers of each application, until so many jobs are done."""

    def __init__(self, apps: Sequence[Ficha], clock: ManualClock, provider: Provider, jobs: int, callers: int) -> None:
        self._apps = apps
        self._clock = clock
        self._provider = provider
        self._terms: TurnTerms = terms_of(provider)
        self._jobs = jobs
        self._chance = random.Random(14)
        self._callers = [Caller(clock.now + number, number) for number in range(callers * len(apps))]
        self._sent: list[int] = []
        self._out: list[tuple[int, int]] = []
        self._refused = 0
        self._done = 0

    async def run(self) -> Figures:
        began_at, real_s = self._clock.now, time.monotonic()
        heapq.heapify(self._callers)
        while self._done < self._jobs:
            self._clock.now = max(self._clock.now, self._callers[0].at)
            due = [heapq.heappop(self._callers)]
            # A request ends exactly when it does; only those who ask for a turn may come a little early.
            while self._callers and self._callers[0].at < self._clock.now + TOGETHER and not self._callers[0].turn_id:
                due.append(heapq.heappop(self._callers))
            for caller in await asyncio.gather(*map(self._act, due)):
                heapq.heappush(self._callers, caller)
        return Figures(
            len(self._sent),
            _busiest(self._sent),
            _most_at_once(self._out),
            (self._clock.now - began_at) / SECOND,
            time.monotonic() - real_s,
            self._refused,
        )

    async def _act(self, caller: Caller) -> Caller:
        app, now = self._apps[caller.number % len(self._apps)], self._clock.now
        if caller.turn_id is not None:
            assert caller.lease is not None
            await app.engine.call(EndTurn(self._provider.name, caller.turn_id, self._terms))
            await app.finish(caller.lease, provider_cost=0.01)
            self._done += 1
            return Caller(now, caller.number)
        lease = caller.lease
        if lease is None:
            leases = await app.claim("default", worker=f"w{caller.number}", starts=True)
            if not leases:
                return Caller(now + SECOND, caller.number)
            lease = leases[0]
        turn_id = f"{caller.number}-{now}"
        taken = await app.engine.call(TakeTurn(self._provider.name, turn_id, self._terms))
        if not isinstance(taken, TurnTaken):
            self._refused += 1
            return Caller(now + SECOND // 2 + self._chance.randrange(SECOND), caller.number, lease)
        return self._send(caller, lease, taken)

    def _send(self, caller: Caller, lease: Lease, taken: TurnTaken) -> Caller:
        planned_at = self._clock.now + taken.wait_ms * 1_000
        late_us = self._chance.randrange(self._terms.slack_ms * 1_000 + 1)
        sent_at = planned_at + late_us
        dies = self._chance.random() < DIE
        # Of one that dies nobody knows when its request ends: it counts as out for as long as it may take.
        ends_at = sent_at + (self._terms.hold_ms * 1_000 - late_us if dies else self._chance.randrange(2 * SECOND))
        self._sent.append(sent_at)
        self._out.append((sent_at, ends_at))
        return Caller(ends_at, caller.number, lease, None if dies else taken.turn_id)


def _busiest(sent: list[int]) -> int:
    sent.sort()
    first = most = 0
    for last, at in enumerate(sent):
        while sent[first] <= at - MINUTE:
            first += 1
        most = max(most, last - first + 1)
    return most


def _most_at_once(out: list[tuple[int, int]]) -> int:
    steps = sorted([(begins, 1) for begins, _ in out] + [(ends, -1) for _, ends in out])
    now_out = most = 0
    for _, step in steps:
        now_out += step
        most = max(most, now_out)
    return most


async def measure(url: str, jobs: int, *, processes: int, callers: int, provider: Provider) -> Figures:
    """Does so many jobs on an empty database, which is migrated first."""
    clock = ManualClock()

    def store() -> PostgresStore | SqliteStore:
        if url.startswith("postgresql:"):
            return PostgresStore(url, clock=clock)
        return SqliteStore(url.removeprefix("sqlite:///"), clock=clock)

    def application() -> Ficha:
        app = Ficha(store=store(), plans=[Plan("open")], lease_s=86_400.0, stuck_s=86_400.0, sweep_by_itself=False)

        @app.tool(cost=1)
        async def draw(job: JobContext) -> None: ...

        return app

    await store().migrate()
    apps = [application() for _ in range(processes)]
    for app in apps:
        await app.open()
    try:
        await apps[0].open_account("ana", credits=jobs)
        for start in range(0, jobs, 1_000):
            await apps[0].submit_batch([("draw", {})] * min(1_000, jobs - start), account="ana")
        return await Race(apps, clock, provider, jobs, callers).run()
    finally:
        for app in apps:
            await app.close()


def main(
    jobs: int = 10_000,
    processes: int = 4,
    callers: int = 2,
    rate: str = "60/m",
    at_once: int = 4,
    database: Annotated[str | None, typer.Option(help="postgres or sqlite; both by default.")] = None,
) -> None:
    provider = Provider("slow", rate=rate, at_once=at_once, timeout_s=5.0)
    with databases(database) as kinds:
        for kind in kinds:
            asyncio.run(_show(kind, jobs, processes, callers, provider))


async def _show(kind: Kind, jobs: int, processes: int, callers: int, provider: Provider) -> None:
    async with kind.fresh() as url:
        found = await measure(url, jobs, processes=processes, callers=callers, provider=provider)
    print(
        f"{kind.name}: {jobs} jobs, {found.sent} requests in {found.virtual_s / 60:.0f} minutes of the provider's time "
        f"({found.real_s:.0f} s): {found.busiest_minute} in the busiest minute ({provider.rate}), "
        f"{found.most_at_once} at once (at most {provider.at_once}), {found.refused} turns refused",
        flush=True,
    )


if __name__ == "__main__":
    typer.run(main)
