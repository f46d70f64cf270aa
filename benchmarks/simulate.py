"""How fast `ficha simulate` is, and how well it predicts: `python -m benchmarks.simulate`.

`--predict` runs a real application for some minutes: a SQLite file, a real worker, handlers that sleep, submits at the
times of made-up traffic. Then it reads the jobs of that run as `--recorded` does, simulates them, and compares the
waits of each plan with those that the jobs really had. `--week` simulates a week of so many jobs and takes the time.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import Struct

from ficha import Ficha, JobContext, Plan, Pool
from ficha.core.policy import SECOND
from ficha.engine.views import instant
from ficha.simulate.comparison import figures_of_scenario
from ficha.simulate.recorded import RecordedJob, recorded_job, recorded_traffic
from ficha.simulate.replay import replay
from ficha.simulate.scenario import today
from ficha.simulate.synthetic import described, synthetic_traffic
from ficha.simulate.traffic import Arrival, Traffic, percentile

WITHIN: Final = 0.15
"""How far a predicted wait may be from the real one."""


def application(database: str = "memory:", **options: Any) -> Ficha:
    app = Ficha(
        database,
        plans=[Plan("free", priority=50, max_running=3), Plan("pro", priority=20)],
        pools=[Pool("gpu", slots=4)],
        **options,
    )

    @app.tool(pool="gpu", cost=5, timeout=86_400)
    async def upscale(job: JobContext, seconds: float) -> None:
        await asyncio.sleep(seconds)

    return app


def busy(seconds: float, per_second: float, run_s: float) -> dict[str, Any]:
    """Traffic that keeps the pool busy most of the time."""
    return {
        "days": seconds / 86_400,
        "jobs_per_day": per_second * 86_400,
        "plans": {"free": {"share": 1, "accounts": 40}, "pro": {"share": 2, "accounts": 20}},
        "tools": {"upscale": {"share": 1, "median_s": run_s, "p95_s": 2.5 * run_s, "cost": 5}},
    }


class Predicted(Struct, frozen=True):
    """A wait of a plan in seconds: as it was, and as the simulation has it."""

    plan: str
    share: float
    jobs: int
    real_s: float
    simulated_s: float

    @property
    def error(self) -> float:
        return abs(self.simulated_s - self.real_s) / self.real_s


async def really(traffic: Traffic, database: str) -> list[RecordedJob]:
    """Runs the traffic in real time, and reads the jobs that came of it."""
    async with application(database) as app:
        for account, plan in {(one.account, one.plan) for one in traffic.arrivals}:
            await app.open_account(account, plan=plan, credits=1_000_000)
        worker = asyncio.create_task(app.run_worker(["gpu"], concurrency=20))
        began = time.monotonic()

        async def submit(one: Arrival) -> None:
            await asyncio.sleep(began + (one.at - traffic.starts_at) / SECOND - time.monotonic())
            await app.submit("upscale", {"seconds": one.run_us / SECOND}, account=one.account)

        await asyncio.gather(*map(submit, traffic.arrivals))
        found: list[RecordedJob] = []
        while len(found) < len(traffic.arrivals):
            await asyncio.sleep(0.5)
            found = [job for job in await _recorded(app) if job.status == "completed"]
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        return found


async def _recorded(app: Ficha) -> list[RecordedJob]:
    found: list[RecordedJob] = []
    after = None
    while True:
        page = await app.jobs(limit=1_000, after=after)
        found += map(recorded_job, page.items)
        if (after := page.next) is None:
            return found


def compared(jobs: list[RecordedJob]) -> list[Predicted]:
    """The waits that these jobs had, and those that a simulation gives them."""
    app = application()
    done = replay(today(app), recorded_traffic(jobs, app.tools, app.policy.plans))
    simulated = {line.plan: line for line in figures_of_scenario(done).waits}
    found = []
    for plan in app.policy.plans:
        waits = sorted(
            instant(job.started_at) - instant(job.created_at)
            for job in jobs
            if job.plan == plan and job.started_at is not None
        )
        line = simulated[plan]
        for share, wait_s in ((0.5, line.wait_p50_s), (0.95, line.wait_p95_s)):
            found.append(Predicted(plan, share, len(waits), percentile(waits, share) / SECOND, wait_s))
    return found


def predict(seconds: float, per_second: float, run_s: float, seed: int = 1) -> list[Predicted]:
    app = application()
    traffic = synthetic_traffic(
        described(busy(seconds, per_second, run_s), app.policy.plans, app.tools), app.tools, seed
    )
    with tempfile.TemporaryDirectory() as folder:
        return compared(asyncio.run(really(traffic, f"sqlite:///{Path(folder) / 'ficha.db'}")))


class Speed(Struct, frozen=True):
    """How long a simulation took: to make the traffic, and to replay it; and the most memory that the process had."""

    jobs: int
    made_s: float
    replayed_s: float
    processor_s: float
    memory_mb: float
    utilisation: float | None
    wait_p95_s: float


def week(jobs: int) -> Speed:
    """A week of so many jobs, of two plans, in a pool that is busy most of the time."""
    app = application()
    setup = today(app)
    description = busy(7 * 86_400, jobs / 7 / 86_400, 4 * 0.78 * 0.85 / (jobs / 7 / 86_400))
    began, processor = time.monotonic(), time.process_time()
    traffic = synthetic_traffic(described(description, app.policy.plans, app.tools), app.tools, 1)
    made = time.monotonic()
    found = figures_of_scenario(replay(setup, traffic))
    ended = time.monotonic()
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    [pool], [*_, whole] = found.pools, found.waits
    return Speed(
        len(traffic.arrivals),
        made - began,
        ended - made,
        time.process_time() - processor,
        memory_mb,
        pool.utilisation,
        whole.wait_p95_s,
    )


def main(
    seconds: Annotated[float, typer.Option("--predict", help="How long the real run takes; 0 for none.")] = 240.0,
    jobs: Annotated[int, typer.Option("--week", help="How many jobs a week has; 0 for none.")] = 1_000_000,
) -> None:
    if jobs:
        speed = week(jobs)
        print(
            f"{speed.jobs} jobs of a week: traffic made in {speed.made_s:.1f} s, replayed in {speed.replayed_s:.1f} s "
            f"({speed.replayed_s / speed.jobs * 1e6:.0f} µs a job), {speed.processor_s:.1f} s of processor time, "
            f"{speed.memory_mb:.0f} MB; the pool was used {100 * (speed.utilisation or 0):.0f} %, p95 of the waits "
            f"{speed.wait_p95_s:.0f} s"
        )
    if seconds:
        wrong = False
        for one in predict(seconds, per_second=1.5, run_s=2.0):
            print(
                f"{one.plan} p{100 * one.share:.0f} of {one.jobs} jobs: really {one.real_s:.2f} s, simulated "
                f"{one.simulated_s:.2f} s, {100 * one.error:.1f} % off"
            )
            wrong = wrong or one.error > WITHIN
        raise typer.Exit(int(wrong))


if __name__ == "__main__":
    typer.run(main)
