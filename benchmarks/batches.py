"""Large batches: `python -m benchmarks.batches`.

- Fairness: one account submits a batch; others then submit a job each, a second apart. Slots are worked on a clock that
  the benchmark moves. What is measured is how long the others wait, with `batch_spacing_s` at 0 and at 1.
- Size: batches are submitted one after the other in one process, and each is cancelled, so that the queue does not
  grow; how long a submit takes, and how far the process grows over the last half of them: the caches are full by then.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import resource
import statistics
import time
from pathlib import Path
from typing import Annotated, Final

import typer
from msgspec import Struct

from ficha import Ficha, JobContext, Lease, Plan, Pool
from ficha.batch_lines import read_items
from ficha.core.policy import SECOND
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from ficha.testing import ManualClock

from .databases import Kind, databases

RUN_S: Final = 5
"""How long each job runs."""
OTHERS: Final = 20


class Waits(Struct):
    """Seconds that the others waited, and jobs of the batch that had ended when the last of them began."""

    waits_s: list[float]
    batch_done: int


class Sizes(Struct):
    """How long each submit of a batch took, on the clock and of the process's processor time, and how many MiB the
    process had after each."""

    seconds: list[float]
    worked: list[float]
    mib: list[float]

    @property
    def grown_mib(self) -> float:
        """Over the last half."""
        return self.mib[-1] - self.mib[(len(self.mib) - 1) // 2]


async def application(url: str, clock: ManualClock | None, spacing_s: float, slots: int) -> Ficha:
    store = (
        PostgresStore(url, clock=clock)
        if url.startswith("postgresql:")
        else SqliteStore(url.removeprefix("sqlite:///"), clock=clock)
    )
    await store.migrate()
    app = Ficha(
        store=store,
        plans=[Plan("open")],
        pools=[Pool("gpu", slots=slots)],
        batch_spacing_s=spacing_s,
        lease_s=86_400.0,
        stuck_s=86_400.0,
        sweep_by_itself=False,
    )

    @app.tool(pool="gpu", cost=1)
    async def draw(job: JobContext, prompt: str = "") -> None: ...

    return app


async def fairness(url: str, jobs: int, slots: int, spacing_s: float) -> Waits:
    """The waits of the others, until the last of them has begun."""
    clock = ManualClock()
    app = await application(url, clock, spacing_s, slots)
    async with app:
        await app.open_account("ana", credits=jobs)
        await app.submit_batch([("draw", {})] * jobs, account="ana")
        began_at = clock.now
        asked: dict[str, int] = {}
        waits: list[float] = []
        ends: list[tuple[int, str]] = []
        running: dict[str, Lease] = {}
        batch_done = 0
        while len(waits) < OTHERS:
            if len(asked) < OTHERS and clock.now >= began_at + (len(asked) + 1) * SECOND:
                name = f"other {len(asked)}"
                await app.open_account(name, credits=1)
                receipt = await app.submit("draw", {}, account=name)
                asked[receipt.job_id] = clock.now
            for lease in await app.claim("gpu", worker="w", limit=slots):
                running[lease.job_id] = lease
                heapq.heappush(ends, (clock.now + RUN_S * SECOND, lease.job_id))
                if lease.job_id in asked:
                    waits.append((clock.now - asked[lease.job_id]) / SECOND)
            clock.now = min(ends[0][0], clock.now + SECOND) if ends else clock.now + SECOND
            ended: list[str] = []
            while ends and ends[0][0] <= clock.now:
                ended.append(heapq.heappop(ends)[1])
            await app.finish_many((running.pop(job_id), None) for job_id in ended)
            batch_done += sum(job_id not in asked for job_id in ended)
    return Waits(waits, batch_done)


async def sizes(url: str, jobs: int, rounds: int) -> Sizes:
    app = await application(url, None, 1.0, 3)
    seconds: list[float] = []
    worked: list[float] = []
    mib: list[float] = []
    async with app:
        await app.open_account("ana", credits=jobs)
        for number in range(rounds):
            began, worked_before = time.perf_counter(), time.process_time()
            lines = (f'{{"prompt": "picture {number} {n}"}}' for n in range(jobs))
            receipt = await app.submit_batch(read_items(lines, "jsonl", "draw", {}, json.loads), account="ana")
            seconds.append(time.perf_counter() - began)
            worked.append(time.process_time() - worked_before)
            mib.append(resident_mib())
            assert receipt.batch_id is not None
            assert await app.cancel_batch(receipt.batch_id) == jobs
    return Sizes(seconds, worked, mib)


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main(
    jobs: int = 10_000,
    slots: int = 10,
    rounds: int = 8,
    database: Annotated[str | None, typer.Option(help="postgres or sqlite; both by default.")] = None,
) -> None:
    with databases(database) as kinds:
        for kind in kinds:
            asyncio.run(_show(kind, jobs, slots, rounds))


async def _show(kind: Kind, jobs: int, slots: int, rounds: int) -> None:
    for spacing_s in (0.0, 1.0):
        async with kind.fresh() as url:
            found = await fairness(url, jobs, slots, spacing_s)
        middle, longest = statistics.median(found.waits_s), max(found.waits_s)
        print(
            f"{kind.name}: {jobs} jobs on {slots} slots of {RUN_S} s, batch_spacing_s={spacing_s:g}: {OTHERS} others "
            f"waited {middle:.0f} s (median) and {longest:.0f} s (longest); {found.batch_done} jobs of the batch had "
            "ended then",
            flush=True,
        )
    async with kind.fresh() as url:
        size = await sizes(url, jobs, rounds)
    print(
        f"{kind.name}: {jobs} jobs submitted in {statistics.median(size.seconds):.1f} s (longest "
        f"{max(size.seconds):.1f}; {statistics.median(size.worked):.1f} s of processor time), {rounds} times; the "
        f"process had {size.mib[-1]:.0f} MiB, of which {size.grown_mib:.1f} came in the last half",
        flush=True,
    )


if __name__ == "__main__":
    typer.run(main)
