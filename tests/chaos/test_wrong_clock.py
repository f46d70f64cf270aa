"""Processes on one SQLite file whose clocks disagree, or jump: no running job is taken from a worker that lives."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ficha import Ficha, JobContext
from ficha.engine.views import JobView
from tests.support.processes import ForkedProcess
from tests.support.waiting import until

LEASE_S = 2.0
JOBS = 3
HOUR_S = 3_600
PROGRAM = f"""
import asyncio, logging, sys, time
from pathlib import Path

from ficha import Ficha
from ficha.store.base import ClockDoubted

role, url, folder, ahead_s = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
true_ns, jump = time.time_ns, folder / "jump"
shifted_ns = lambda: true_ns() + (ahead_s + int(jump.read_text())) * 1_000_000_000
time.time_ns, time.time = shifted_ns, lambda: shifted_ns() / 1e9
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
app = Ficha(url, lease_s={LEASE_S}, heartbeat_s=0.3, sweep_s=0.1)

@app.tool(timeout=3 * {HOUR_S})
async def render(job) -> str:
    while not (folder / "go").exists():
        await asyncio.sleep(0.02)
    return "done"

async def work():
    async with app:
        await app.worker(concurrency={JOBS}).run()

async def burst():
    async with app:
        await app.worker(concurrency={JOBS}).run(burst=True)

async def sweep():
    async with app:
        while True:
            try:
                await app.sweep()
            except ClockDoubted as error:
                logging.info("refused: %s", error)
            await asyncio.sleep(0.05)

asyncio.run(globals()[role]())
"""


class Place:
    """A folder with a database, and the processes on it."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'ficha.db'}"
        self._folder = folder
        self._processes: list[ForkedProcess] = []
        self.jump(0)

    def start(self, role: str, ahead_s: int = 0) -> Path:
        """Starts a process; returns its log."""
        log = self._folder / f"{len(self._processes)}.log"
        arguments = [PROGRAM, role, self.url, str(self._folder), str(ahead_s)]
        with log.open("wb") as written:
            self._processes.append(ForkedProcess("tests.support.program", arguments, stdout=written, stderr=written))
        return log

    def kill(self, log: Path) -> None:
        process = self._processes[int(log.stem)]
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)

    def has_ended(self, log: Path) -> bool:
        return self._processes[int(log.stem)].poll() is not None

    def jump(self, seconds: int) -> None:
        """The clock of all processes jumps."""
        new = self._folder / "jump.new"
        new.write_text(str(seconds))
        new.rename(self._folder / "jump")

    def go(self) -> None:
        """Lets the handlers return."""
        (self._folder / "go").touch()

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait(timeout=20)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


@pytest.fixture
async def app(place: Place) -> AsyncIterator[Ficha]:
    """An application that only looks: it calls too seldom to sweep."""
    app = Ficha(place.url, lease_s=LEASE_S, sweep_s=600, sweep_by_itself=False)

    @app.tool(timeout=3 * HOUR_S)
    async def render(job: JobContext) -> str:
        raise AssertionError("no worker is here")

    async with app:
        await app.open_account("ana", credits=100)
        yield app


async def submitted(app: Ficha) -> list[str]:
    return [(await app.submit("render", {}, account="ana")).job_id for _ in range(JOBS)]


async def views(app: Ficha, ids: list[str]) -> list[JobView]:
    found = [await app.job(job_id) for job_id in ids]
    assert None not in found
    return [view for view in found if view is not None]


async def all_are(app: Ficha, ids: list[str], status: str) -> bool:
    return all(view.status == status for view in await views(app, ids))


async def stay_running(app: Ficha, ids: list[str], seconds: float) -> None:
    """For so long, each job runs where it began."""
    for _ in range(int(seconds / 0.1)):
        assert [(view.status, view.recoveries) for view in await views(app, ids)] == [("running", 0)] * JOBS
        await asyncio.sleep(0.1)


@pytest.mark.req("B4", "B5")
@pytest.mark.parametrize("is_first", [True, False], ids=["it opens first", "it opens while jobs run"])
@pytest.mark.parametrize(("works_s", "sweeps_s"), [(0, HOUR_S), (-HOUR_S, 0)], ids=["ahead", "the worker is behind"])
async def test_a_process_whose_clock_is_an_hour_ahead_of_a_workers_takes_no_running_job(
    place: Place, app: Ficha, works_s: int, sweeps_s: int, is_first: bool
) -> None:
    if is_first:
        sweeper = place.start("sweep", sweeps_s)
        await asyncio.sleep(0.5)
    worker = place.start("work", works_s)
    ids = await submitted(app)
    await until(lambda: all_are(app, ids, "running"), what=f"jobs run: {worker.read_text()}")
    if not is_first:
        sweeper = place.start("sweep", sweeps_s)
    await until(lambda: "no job is recovered" in sweeper.read_text(), what=sweeper.read_text())
    await stay_running(app, ids, 3 * LEASE_S)
    await until(lambda: "refused: " in sweeper.read_text(), what=sweeper.read_text())
    assert sweeper.read_text().count("no job is recovered") == 1
    place.kill(sweeper)
    place.kill(worker)
    heir = place.start("work", works_s)
    place.go()
    await until(lambda: all_are(app, ids, "completed"), what=f"jobs are recovered: {heir.read_text()}")
    assert [view.recoveries for view in await views(app, ids)] == [1] * JOBS


@pytest.mark.req("B4", "B5")
async def test_a_jump_of_everybodys_clock_takes_no_running_job_and_sweeps_go_on(place: Place, app: Ficha) -> None:
    logs = [place.start("work"), place.start("sweep")]
    ids = await submitted(app)
    await until(lambda: all_are(app, ids, "running"))
    place.jump(HOUR_S)
    # Whoever looks as it happens sees the clock jump, or first a commit of one whose clock jumped already.
    await until(lambda: all("no job is recovered" in log.read_text() for log in logs))
    await stay_running(app, ids, 2 * LEASE_S)
    await until(lambda: all("sweeps go on" in log.read_text() for log in logs))
    place.kill(logs[0])
    heir = place.start("work")
    place.go()
    await until(lambda: all_are(app, ids, "completed"), what=f"jobs are recovered: {heir.read_text()}")
    assert [view.recoveries for view in await views(app, ids)] == [1] * JOBS


@pytest.mark.req("A9", "B4")
async def test_a_burst_waits_until_it_may_recover_what_looks_abandoned(place: Place, app: Ficha) -> None:
    worker = place.start("work")
    ids = await submitted(app)
    await until(lambda: all_are(app, ids, "running"))
    place.kill(worker)
    place.go()
    log = place.start("burst", ahead_s=60)
    await until(lambda: place.has_ended(log), what=log.read_text())
    assert "held jobs look abandoned" in log.read_text()
    assert "sweeps go on" in log.read_text()
    assert [(view.status, view.recoveries) for view in await views(app, ids)] == [("completed", 1)] * JOBS
