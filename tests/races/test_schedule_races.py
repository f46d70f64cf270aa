"""Processes that race for the slots of one schedule, one of them killed in the middle: each slot has one job."""

import asyncio
import subprocess
from collections import Counter
from typing import Any

import pytest

from ficha import Ficha, JobContext
from ficha.core.needs import Needs
from ficha.core.records import Schedule
from ficha.core.schedules import FREE
from ficha.core.snapshot import Changes, Snapshot
from ficha.store.base import GetState, ListSchedules
from tests.support.processes import ForkedProcess
from tests.support.waiting import until

SLOTS = 60
MINUTE = 60_000_000
PROGRAM = """
import asyncio, sys
from ficha import Ficha
from ficha.operations import ScheduleFirer

app = Ficha(sys.argv[1], sweep_by_itself=False, sweep_s=3600)

@app.cron("* * * * *", missed="all", name="ticks")
async def tick(job): ...

async def main():
    async with app:
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(4):
            await ScheduleFirer(app).fire()
        print("done", flush=True)

asyncio.run(main())
"""


@pytest.mark.long
async def test_each_slot_has_one_job_although_a_process_is_killed(database: str) -> None:
    app = Ficha(database, sweep_by_itself=False, sweep_s=3_600)

    @app.cron("* * * * *", missed="all", name="ticks", missed_max=1_000)
    async def tick(job: JobContext) -> None: ...

    async with app:
        await app.pause_schedule("ticks")
        settled = await put_back(app)

        async def jobs() -> list[str]:
            found = (await app.engine.store.read(GetState())).jobs.values()
            return [str(job.spec.correlation_id) for job in found]

        processes = [start(database) for _ in range(4)]
        try:
            for process in processes:
                assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
            for process in processes:
                process.stdin.write("go\n")
                process.stdin.flush()

            async def is_under_way() -> bool:
                return len(await jobs()) >= 3

            await until(is_under_way)
            processes[0].kill()
            for process in processes[1:]:
                assert await asyncio.to_thread(process.stdout.readline) == "done\n"
        finally:
            for process in processes:
                process.kill()
                process.wait(30)
                process.stdin.close()
                process.stdout.close()
        made = Counter(await jobs())
        assert len(made) >= SLOTS
        assert set(made.values()) == {1}
        (schedule,) = await app.schedules()
        assert (schedule.fired, schedule.refused, schedule.passed) == (len(made), 0, 0)
        assert schedule.last is not None
        assert schedule.last.slot_at is not None
        assert int(schedule.last.slot_at.timestamp()) * 1_000_000 == settled + len(made) * MINUTE
        assert (await app.account(FREE)).active == len(made)
        assert await app.verify() == []


async def put_back(app: Ficha) -> int:
    """Sets the schedule to what it is when nothing has run for an hour; the time of its last slot."""
    now = (await app.engine.store.read(ListSchedules())).now
    settled = now - now % MINUTE - SLOTS * MINUTE
    schedule = Schedule("ticks", "* * * * *", "UTC", "tick", None, settled)
    needs = Needs()
    needs.find(Schedule, "ticks")

    def decide(_: Snapshot) -> Any:
        return Changes(keyed=[schedule]), []

    await app.engine.store.transact("00000000-0000-7000-8000-000000000001", 1, needs, decide)
    return settled


def start(database: str) -> Any:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return ForkedProcess("tests.support.program", [PROGRAM, database], text=True, **pipes)
