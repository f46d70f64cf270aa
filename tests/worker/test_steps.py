"""Work that was done is not done again: paid calls and items of a loop, through kills at any place."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ficha import Ficha, JobContext
from tests.support.waiting import until
from tests.worker.worker_processes import WorkerProcesses, ended, submitted

SHORT = {"lease_s": 0.6, "heartbeat_s": 0.15, "sweep_s": 0.05, "max_recoveries": 50}


class PaidApi:
    """What is asked of it, call by call."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        calls = self.calls

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                calls[self.path] += 1
                words = f"paid for {self.path}".encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(words)))
                self.end_headers()
                self.wfile.write(words)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def api() -> Iterator[PaidApi]:
    api = PaidApi()
    thread = threading.Thread(target=api.server.serve_forever, args=(0.05,))
    thread.start()
    yield api
    api.server.shutdown()
    thread.join()
    api.server.server_close()


@pytest.mark.long_on("postgresql")
@pytest.mark.req("E3")
@pytest.mark.parametrize("calls", [4, pytest.param(12, marks=pytest.mark.long)])
async def test_a_job_killed_between_every_two_of_its_paid_calls_makes_each_once(
    workers: WorkerProcesses, api: PaidApi, calls: int
) -> None:
    async with workers.opened_app(**SHORT) as app:
        # One worker stands by while the other has the job, so that the next run begins as soon as the lease is gone.
        processes = [workers.start(), workers.start()]
        job_id = await submitted(app, "film", address=api.address, calls=calls)
        for number in range(calls - 1):
            await workers.did("hangs", number)
            (holder,) = [worker for worker in processes if worker.name == (await app.job(job_id)).locked_by]
            holder.kill()
            processes.remove(holder)
            processes.append(workers.start())
        (job,) = await ended(app, job_id)
        assert job.result == [f"paid for /{number}" for number in range(calls)]
        assert api.calls == {f"/{number}": 1 for number in range(calls)}
        assert (job.charged, job.refunded, job.attempts) == (5, 0, 0)
        assert (await app.account("ana")).balance == 995
        assert await app.verify() == []


@pytest.mark.long_on("postgresql")
@pytest.mark.req("E3")
async def test_a_loop_over_200_items_that_is_killed_at_one_of_them_goes_on_there(workers: WorkerProcesses) -> None:
    at = random.Random(200).randrange(20, 180)
    async with workers.opened_app(**SHORT) as app:
        processes = [workers.start(), workers.start()]
        job_id = await submitted(app, "loop", items=200, stops_at=at)
        await workers.did("item", at)
        (holder,) = [worker for worker in processes if worker.name == (await app.job(job_id)).locked_by]
        holder.kill()
        (job,) = await ended(app, job_id)
        assert (job.status, job.result, job.recoveries) == ("completed", 200, 1)
        done = Counter(int(item) for (item,) in workers.deeds("item"))
        assert done == Counter(range(200)) + Counter([at]), "the one under way once more, and no other"
        await until(lambda: not holder.is_alive)


async def test_a_step_that_failed_may_be_tried_again_as_the_same_line_of_code() -> None:
    """A lambda is a new object each time; what it closes over says whether it is the same thing."""
    app = Ficha("memory:")
    calls: list[str] = []

    def pay(what: str) -> str:
        calls.append(what)
        if len(calls) < 3:
            raise TimeoutError("not yet")
        return f"paid for {what}"

    @app.tool(attempts=1)
    async def stubborn(job: JobContext, what: str) -> str:
        while True:
            with suppress(TimeoutError):
                return await job.step("pay", lambda: pay(what))

    @app.tool()
    async def careless(job: JobContext) -> None:
        for what in ("a", "b"):

            def pay_for(what: str = what) -> str:
                return pay(what)

            await job.step("pay", pay_for)

    async with app:
        await app.open_account("ana")
        good, bad = await submitted(app, "stubborn", what="it"), await submitted(app, "careless")
        assert await app.run_worker(burst=True, concurrency=1) == 2
        job = await app.job(good)
        assert (job.error, job.result, calls[:3]) == (None, "paid for it", ["it"] * 3)
        assert "called twice with a different function or arguments" in (await app.job(bad)).error


async def test_plain_steps_run_beside_each_other_however_many_there_are() -> None:
    app = Ficha("memory:")
    all_are_here = threading.Barrier(40)

    @app.tool()
    async def meets(job: JobContext) -> int:
        return await job.step("meet", all_are_here.wait, 20)

    async with app:
        await app.open_account("ana")
        jobs = [await submitted(app, "meets") for _ in range(40)]
        assert await app.run_worker(burst=True, concurrency=40) == 40
        assert sorted([(await app.job(job_id)).result for job_id in jobs]) == list(range(40))
