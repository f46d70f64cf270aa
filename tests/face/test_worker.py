"""The worker: runs handlers of every kind, says how they ended, and leaves no job behind."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ficha import Accepted, Cancel, Ficha, FinalError, JobContext, LaneLimits, Overloaded, Partial, Plan, Pool, Retry
from ficha.store.base import CommitUnknown, Unavailable
from ficha.worker import Worker
from ficha.worker import worker as worker_module
from tests.face.shop import World, balance, history


def shop(url: str, **settings: Any) -> Ficha:
    """An application on the real clock, which sweeps often enough that no test waits for it."""
    return Ficha(url, **{"pools": [Pool("gpu", slots=3)], "sweep_s": 0.02} | settings)


async def ended(app: Ficha, job_id: str) -> Any:
    """The job, once it has ended; each look follows an event, not a guess at the time."""
    async with asyncio.timeout(20):
        while (job := await app.job(job_id)).finished_at is None:
            await app.wait_for_work("default", 0.01)
    return job


async def run_one(app: Ficha, tool: str, payload: dict[str, Any] | None = None) -> Any:
    """The job that a burst of work made of one submit."""
    await app.open_account("ana", credits=100)
    receipt = await app.submit(tool, payload or {}, account="ana")
    async with asyncio.timeout(20):
        assert await app.run_worker(burst=True) >= 1
    return await app.job(receipt.job_id)


# What a handler can be, and what it can say


async def test_an_async_handler_runs_with_its_payload_and_its_result_is_kept(url: str) -> None:
    app = shop(url)
    seen: dict[str, Any] = {}

    @app.tool(cost=5)
    async def draw(job: JobContext, prompt: str, size: int = 512) -> dict:
        seen.update(id=job.id, account=job.account, attempt=job.attempt, trace=job.correlation_id)
        seen.update(point=job.resume_point, data=job.resume_data, status=(await app.job(job.id)).status)
        return {"prompt": prompt, "size": size}

    async with app:
        await app.open_account("ana", credits=100)
        receipt = await app.submit("draw", {"prompt": "cat"}, account="ana", correlation_id="trace-1")
        assert await app.run_worker(burst=True, worker="w7") == 1
        job = await app.job(receipt.job_id)
        assert (job.status, job.result, job.progress) == ("completed", {"prompt": "cat", "size": 512}, 100)
        assert seen == {
            "id": job.id,
            "account": "ana",
            "attempt": 1,
            "trace": "trace-1",
            "point": None,
            "data": None,
            "status": "running",
        }
        assert await history(app, job.id) == ["submitted", "claimed", "started", "completed"]
        assert (await app.events(job=job.id))[1].data["worker"] == "w7"
        assert await app.verify() == []


async def test_a_plain_function_runs_in_a_thread_and_does_not_hold_up_the_others() -> None:
    app = shop("memory:")
    slow_may_end = threading.Event()

    @app.tool()
    def slow(job: JobContext) -> str:
        assert slow_may_end.wait(20)
        return threading.current_thread().name

    @app.tool()
    async def quick(job: JobContext) -> None:
        slow_may_end.set()

    async with app:
        await app.open_account("ana")
        first = await app.submit("slow", account="ana")
        await app.submit("quick", account="ana")
        async with asyncio.timeout(20):
            assert await app.run_worker(burst=True) == 2
        assert (await app.job(first.job_id)).result != threading.main_thread().name


Handler = Callable[..., Any]


async def raises(job: JobContext) -> None:
    raise ValueError("the provider said no")


async def raises_nothing_to_say(job: JobContext) -> None:
    raise KeyError


def raises_in_a_thread(job: JobContext) -> None:
    raise ValueError("the provider said no")


async def raises_final(job: JobContext) -> None:
    raise FinalError("the image is forbidden")


async def returns_partial(job: JobContext) -> Partial:
    return Partial(["a", "b", "c"], delivered=3, of=4)


async def returns_nothing_delivered(job: JobContext) -> Partial:
    return Partial([], delivered=0, of=4)


async def returns_cancel(job: JobContext) -> Cancel:
    return Cancel("nobody wants it")


async def returns_nothing(job: JobContext) -> None:
    return None


async def returns_bytes(job: JobContext) -> bytes:
    return b"\x89PNG"


async def returns_too_much(job: JobContext) -> str:
    return "x" * 2_000_000


async def returns_partial_bytes(job: JobContext) -> Partial:
    return Partial(b"\x89PNG", delivered=1, of=2)


async def returns_a_nonsense_partial(job: JobContext) -> Partial:
    return Partial(["a"], delivered=1.5, of=2)  # type: ignore[arg-type]


async def returns_a_nonsense_retry(job: JobContext) -> Retry:
    return Retry(after="soon")  # type: ignore[arg-type]


async def returns_an_empty_reference(job: JobContext) -> Accepted:
    return Accepted("")


async def times_out(job: JobContext) -> None:
    await asyncio.Event().wait()


@pytest.mark.req("A4", "D9")
@pytest.mark.parametrize(
    ("handler", "status", "refunded", "error", "is_dead"),
    [
        (raises, "failed", 8, "the provider said no", True),
        (raises_nothing_to_say, "failed", 8, "KeyError", True),
        (raises_in_a_thread, "failed", 8, "the provider said no", True),
        (raises_final, "failed", 8, "the image is forbidden", False),
        (returns_partial, "completed", 2, None, False),
        (returns_nothing_delivered, "completed", 8, None, False),
        (returns_cancel, "cancelled", 8, "nobody wants it", False),
        (returns_nothing, "completed", 0, None, False),
        (returns_bytes, "failed", 8, "the result cannot be stored", False),
        (returns_too_much, "failed", 8, "the result cannot be stored", False),
        (returns_partial_bytes, "failed", 8, "the result cannot be stored", False),
        (returns_a_nonsense_partial, "failed", 8, "the result cannot be stored: delivered must be", False),
        (returns_a_nonsense_retry, "failed", 8, "the result cannot be stored: after_s must be", False),
        (returns_an_empty_reference, "failed", 8, "the result cannot be stored: a provider's reference", False),
        (times_out, "failed", 8, "timed out after 0.05 s", True),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_a_run_ends_as_its_handler_says(
    handler: Handler, status: str, refunded: int, error: str | None, is_dead: bool
) -> None:
    app = shop("memory:")
    app.tool(name="it", cost=8, timeout=0.05 if handler is times_out else 600)(handler)
    async with app:
        job = await run_one(app, "it")
        assert (job.status, job.refunded, job.is_dead_letter) == (status, refunded, is_dead)
        assert (job.error or "").startswith(error or "")
        assert (job.error is None) == (error is None)
        assert await balance(app) == 100 - 8 + refunded
        assert await app.verify() == []


@pytest.mark.req("B6")
async def test_a_run_that_fails_is_tried_again_until_it_works(url: str) -> None:
    app = shop(url)
    attempts: list[int] = []

    @app.tool(cost=5, attempts=3, backoff=0.001)
    async def flaky(job: JobContext) -> str:
        attempts.append(job.attempt)
        if len(attempts) < 3:
            raise ValueError("not yet")
        return "done"

    async with app:
        await app.open_account("ana", credits=100)
        receipt = await app.submit("flaky", account="ana")
        worker = asyncio.create_task(app.run_worker())
        job = await ended(app, receipt.job_id)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert (job.status, job.result, job.attempts, attempts) == ("completed", "done", 2, [1, 2, 3])
        assert await balance(app) == 95


async def test_a_retry_that_the_handler_asks_for_is_no_failure(url: str) -> None:
    app = shop(url)
    runs: list[int] = []

    @app.tool(cost=5)
    async def busy(job: JobContext) -> Any:
        runs.append(job.attempt)
        return Retry(after=0.001, reason="busy") if len(runs) < 3 else "done"

    async with app:
        await app.open_account("ana", credits=100)
        receipt = await app.submit("busy", account="ana")
        worker = asyncio.create_task(app.run_worker())
        job = await ended(app, receipt.job_id)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert (job.status, runs, job.attempts, job.recoveries) == ("completed", [1, 1, 1], 0, 0)


async def test_a_job_that_a_provider_accepted_leaves_the_worker_free(url: str) -> None:
    app = shop(url)

    @app.tool(cost=5, pool="gpu")
    async def remote(job: JobContext) -> Accepted:
        return Accepted("prediction-7")

    async with app:
        job = await run_one(app, "remote")
        assert (job.status, job.provider_ref, job.locked_by) == ("running", "prediction-7", None)
        (pool,) = [pool for pool in await app.pools() if pool.name == "gpu"]
        assert pool.busy == 1


# Steps and checkpoints


@pytest.mark.req("E3")
async def test_a_resumed_job_goes_on_after_its_last_checkpoint_and_pays_no_step_twice(url: str) -> None:
    app = shop(url)
    paid: list[str] = []

    async def pay(what: str) -> str:
        paid.append(what)
        return f"{what} done"

    def pay_in_a_thread(what: str) -> str:
        paid.append(what)
        return f"{what} done"

    @app.tool(cost=5, attempts=2, backoff=0.001)
    async def film(job: JobContext, scenes: int) -> list[str]:
        script = await job.step("script", pay, "script")
        voice = await job.step("voice", pay_in_a_thread, "voice")
        assert await job.step("script", pay, "script") == script
        done = job.resume_data["done"] if job.resume_point == "SCENES" else []
        for scene in range(len(done), scenes):
            done = [*done, await job.step(f"scene {scene}", pay, f"scene {scene}")]
            await job.checkpoint("SCENES", progress=100 * len(done) // scenes, data={"done": done})
            if scene == 1 and job.attempt == 1:
                raise MemoryError("out of memory")
        return [script, voice, *done]

    async with app:
        await app.open_account("ana", credits=100)
        receipt = await app.submit("film", {"scenes": 4}, account="ana")
        worker = asyncio.create_task(app.run_worker())
        job = await ended(app, receipt.job_id)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert job.status == "completed"
        assert job.result == ["script done", "voice done", *(f"scene {n} done" for n in range(4))]
        assert paid == ["script", "voice", "scene 0", "scene 1", "scene 2", "scene 3"]
        assert await balance(app) == 95
        assert await app.verify() == []


async def test_a_step_that_failed_is_run_again_and_two_at_once_run_it_once() -> None:
    app = shop("memory:")
    calls: list[str] = []

    async def unsure(name: str) -> int:
        calls.append(name)
        await asyncio.sleep(0)
        if len(calls) == 1:
            raise ValueError("not yet")
        return len(calls)

    @app.tool()
    async def work(job: JobContext) -> list[int]:
        with pytest.raises(ValueError, match="not yet"):
            await job.step("a", unsure, "a")
        return await asyncio.gather(*(job.step("a", unsure, "a") for _ in range(5)))

    async with app:
        assert (await run_one(app, "work")).result == [2] * 5


# Losing a job


async def test_a_cancelled_job_stops_its_handler_and_the_worker_goes_on(url: str) -> None:
    app = shop(url, heartbeat_s=0.01)
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.tool(cost=5)
    async def endless(job: JobContext) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @app.tool(cost=5)
    async def quick(job: JobContext) -> str:
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        receipt = await app.submit("endless", account="ana")
        worker = asyncio.create_task(app.run_worker())
        await started.wait()
        await app.cancel(receipt.job_id)
        await stopped.wait()
        after = await app.submit("quick", account="ana")
        assert (await ended(app, after.job_id)).result == "done"
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert (await app.job(receipt.job_id)).status == "cancelled"
        assert await balance(app) == 95


async def test_a_job_cancelled_at_the_end_of_the_workers_time_does_not_cancel_the_worker(url: str) -> None:
    """Its time is up and it waits for two jobs; one is taken away, and the other is still let finish."""
    app = shop(url, heartbeat_s=0.01)
    started: list[str] = []
    both, one_is_gone, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.tool(cost=5)
    async def long(job: JobContext, name: str) -> str:
        started.append(name)
        if len(started) == 2:
            both.set()
        try:
            await may_end.wait()
        except asyncio.CancelledError:
            one_is_gone.set()
            raise
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        gone, stays = [(await app.submit("long", {"name": name}, account="ana")).job_id for name in ("a", "b")]
        worker = asyncio.create_task(app.run_worker(max_seconds=0.01))
        await both.wait()
        await asyncio.sleep(0.05)  # Its time is over, and it waits for the two.
        await app.cancel(gone)
        await one_is_gone.wait()
        may_end.set()
        assert await worker == 2
        assert (await app.job(stays)).status == "completed"


async def test_heartbeats_keep_a_job_that_runs_longer_than_its_lease(world: World) -> None:
    app = await world.open(heartbeat_s=0.005)
    runs: list[int] = []

    @app.tool(name="long", cost=5)
    async def long(job: JobContext) -> str:
        runs.append(1)
        for _ in range(4):
            before = (await app.job(job.id)).last_heartbeat_at
            world.clock.advance(50)
            while (await app.job(job.id)).last_heartbeat_at == before:  # noqa: ASYNC110 (anybody may only look)
                await asyncio.sleep(0.005)
            assert not await app.sweep()
        return "done"

    async with asyncio.timeout(20):
        job = await run_one(app, "long")
    assert (job.status, job.recoveries, runs) == ("completed", 0, [1])
    assert (job.finished_at - job.started_at).total_seconds() == 200


async def test_a_tool_that_the_worker_does_not_know_is_handed_back_for_another(url: str) -> None:
    app = shop(url)

    @app.tool(cost=5)
    async def newer(job: JobContext) -> None: ...

    async with app:
        await app.open_account("ana", credits=100)
        receipt = await app.submit("newer", account="ana")
        worker = Worker(app, {}, pools=["default"], concurrency=1, name="an older release", heartbeat_s=10)
        assert await worker.run(burst=True) == 1
        job = await app.job(receipt.job_id)
        assert (job.status, job.attempts, job.recoveries, job.waiting_for) == ("queued", 0, 0, "schedule")
        assert (await app.events(job=job.id))[-1].data["error"] == "this worker has no tool newer"
        assert await balance(app) == 95


# When it stops


async def test_a_stopped_worker_hands_its_jobs_back_at_once(url: str) -> None:
    app = shop(url)
    started = asyncio.Event()
    begun: list[str] = []

    @app.tool(cost=5)
    async def endless(job: JobContext) -> None:
        begun.append(job.id)
        if len(begun) == 2:
            started.set()
        await asyncio.Event().wait()

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        jobs = [(await app.submit("endless", account="ana")).job_id for _ in range(2)]
        worker = asyncio.create_task(app.run_worker())
        await started.wait()
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
        for job_id in jobs:
            job = await app.job(job_id)
            assert (job.status, job.attempts, job.recoveries, job.locked_by) == ("queued", 0, 0, None)
        while not (found := await app.claim("default", limit=2, worker="w2")):
            await app.sweep()
        assert {lease.job_id for lease in found} <= set(jobs)
        assert await balance(app) == 90


async def test_a_worker_that_is_stopped_while_it_waits_for_its_last_jobs_hands_them_back(url: str) -> None:
    app = shop(url)
    started = asyncio.Event()

    @app.tool(cost=5)
    async def endless(job: JobContext) -> None:
        started.set()
        await asyncio.Event().wait()

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        receipt = await app.submit("endless", account="ana")
        worker = asyncio.create_task(app.run_worker(max_seconds=0.01))
        await started.wait()
        await asyncio.sleep(0.05)  # Its time is over, and it waits for the job.
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
        assert (await app.job(receipt.job_id)).status == "queued"


async def test_a_worker_can_empty_the_queue_and_leave(url: str) -> None:
    app = shop(url)

    @app.tool(cost=1, pool="gpu")
    async def quick(job: JobContext, number: int) -> int:
        return number

    async with app:
        await app.open_account("ana", credits=100)
        batch = await app.submit_batch([("quick", {"number": n}) for n in range(25)], account="ana")
        async with asyncio.timeout(20):
            assert await app.run_worker(["gpu"], concurrency=2, burst=True) == 25
            assert await app.run_worker(["gpu"], burst=True) == 0
        assert (await app.batch(batch.batch_id)).by_status == {"completed": 25}


@pytest.mark.req("D8")
async def test_a_worker_can_run_in_a_time_budget(url: str) -> None:
    app = shop(url)
    begun = 0

    @app.tool(cost=1)
    async def chain(job: JobContext) -> None:
        """Each job submits the next: there is always work."""
        nonlocal begun
        begun += 1
        await app.submit("chain", account="ana")

    async with app:
        await app.open_account("ana", credits=100_000)
        await app.submit("chain", account="ana")
        async with asyncio.timeout(20):
            assert await app.run_worker(concurrency=1, max_seconds=0.3) == begun
        stats = await app.stats()
        assert stats.by_status == {"queued": 1}, "what it began it finished"


async def test_it_runs_no_more_at_a_time_than_it_was_told(url: str) -> None:
    app = shop(url, pools=[])
    running = most = 0

    @app.tool()
    async def counted(job: JobContext) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    async with app, asyncio.timeout(20):
        await app.open_account("ana")
        await app.submit_batch([("counted", {}) for _ in range(30)], account="ana")
        assert await app.run_worker(concurrency=4, burst=True) == 30
        assert most == 4


async def test_a_worker_hears_of_work_at_once(url: str) -> None:
    """It waits for a second between its looks; twenty jobs one after another would take it twenty."""
    app = shop(url)

    @app.tool()
    async def quick(job: JobContext) -> str:
        return "done"

    async with app, asyncio.timeout(10):
        await app.open_account("ana")
        worker = asyncio.create_task(app.run_worker())
        for _ in range(20):
            assert (await ended(app, (await app.submit("quick", account="ana")).job_id)).result == "done"
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


@pytest.mark.parametrize("fault", [Unavailable("away"), CommitUnknown("lost")], ids=lambda fault: type(fault).__name__)
async def test_a_worker_outlives_a_database_that_is_away(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "POLL_S", 0.01)
    app = shop("memory:", lane_limits=LaneLimits(give_up_s=0.0), sweep_by_itself=False, sweep_s=3_600)

    @app.tool(cost=5)
    async def quick(job: JobContext) -> str:
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        receipt = await app.submit("quick", account="ana")
        store = app.engine.store
        failed = asyncio.Event()

        async def broken(*args: object) -> None:
            failed.set()
            raise fault

        with monkeypatch.context() as broken_store:
            broken_store.setattr(store, "transact", broken)
            broken_store.setattr(store, "committed", broken)
            worker = asyncio.create_task(app.run_worker())
            for _ in range(3):
                failed.clear()
                await failed.wait()
        assert (await ended(app, receipt.job_id)).result == "done"
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def test_three_workers_at_once_run_each_of_a_hundred_jobs_exactly_once(url: str) -> None:
    app = shop(url, pools=[])
    runs: list[int] = []

    @app.tool(cost=1)
    async def count(job: JobContext, number: int) -> int:
        runs.append(number)
        await asyncio.sleep(0)
        return number

    async with app:
        await app.open_account("ana", credits=100)
        batch = await app.submit_batch([("count", {"number": n}) for n in range(100)], account="ana")
        async with asyncio.timeout(30):
            ran = await asyncio.gather(*(app.run_worker(concurrency=10, burst=True, worker=f"w{n}") for n in range(3)))
        assert sum(ran) == 100
        assert sorted(runs) == list(range(100))
        assert (await app.batch(batch.batch_id)).by_status == {"completed": 100}
        assert await balance(app) == 0
        assert await app.verify() == []


# Settings


@pytest.mark.req("B2")
async def test_the_environment_sets_lease_heartbeat_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Ficha("memory:")
    assert (app.lease_s, app.heartbeat_s) == (60.0, 10.0)
    monkeypatch.setenv("JOB_LOCK_TTL_MS", "45000")
    monkeypatch.setenv("JOB_HEARTBEAT_INTERVAL_MS", "1500")
    monkeypatch.setenv("WORKER_ID", "instance-3")
    app = Ficha("memory:")
    assert (app.lease_s, app.heartbeat_s) == (45.0, 1.5)
    names: list[str | None] = []
    leases: list[Any] = []

    @app.tool()
    async def look(job: JobContext) -> None:
        view = await app.job(job.id)
        names.append(view.locked_by)
        leases.append((view.lock_expires_at - view.last_heartbeat_at).total_seconds())

    async with app:
        await run_one(app, "look")
        await app.submit("look", account="ana")
        await app.run_worker(burst=True, worker="named")
        monkeypatch.delenv("WORKER_ID")
        await app.submit("look", account="ana")
        await app.run_worker(burst=True)
    assert names[:2] == ["instance-3", "named"]
    assert names[2] not in (None, "", "instance-3")
    assert leases == [45.0] * 3
    # What the code says stands above the environment.
    assert Ficha("memory:", lease_s=5, heartbeat_s=1).lease_s == 5


@pytest.mark.parametrize("variable", ["JOB_LOCK_TTL_MS", "JOB_HEARTBEAT_INTERVAL_MS"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "10s", "1e3", " ", "NaN"])
def test_a_setting_that_is_no_number_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=f"{variable} must be a whole number of milliseconds"):
        Ficha("memory:")


async def test_a_worker_serves_only_its_pools(url: str) -> None:
    app = shop(url, pools=[Pool("gpu"), Pool("cpu")], plans=[Plan("all")])

    @app.tool(pool="gpu")
    async def on_gpu(job: JobContext) -> None: ...

    @app.tool(pool="cpu")
    async def on_cpu(job: JobContext) -> None: ...

    async with app:
        await app.open_account("ana")
        left, done = await app.submit("on_gpu", account="ana"), await app.submit("on_cpu", account="ana")
        assert await app.run_worker(["cpu"], burst=True) == 1
        assert (await app.job(done.job_id)).status == "completed"
        assert (await app.job(left.job_id)).status == "queued"
        assert await app.run_worker(burst=True) == 1


# Work that comes from the same process


@pytest.mark.parametrize("place", ["memory", "sqlite"])
async def test_with_a_single_writer_a_submit_and_the_claim_that_answers_it_are_one_transaction(
    place: str, tmp_path: Path
) -> None:
    app = shop("memory:" if place == "memory" else f"sqlite:///{tmp_path}/jobs.db", pools=[Pool("gpu", slots=1)])
    may_end = asyncio.Event()

    @app.tool(cost=5, pool="gpu")
    async def draw(job: JobContext) -> str:
        await may_end.wait()
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        worker = asyncio.create_task(app.run_worker(["gpu"], concurrency=3))
        first = (await ended_after_release(app, may_end)).id
        events = await app.events(job=first)
        assert [event.kind for event in events] == ["submitted", "claimed", "started", "completed"]
        assert len({event.at for event in events[:3]}) == 1
        may_end.clear()
        # The pool has one slot: the second job must wait for the first, though a claim stands there for both.
        jobs = [(await app.submit("draw", account="ana")).job_id for _ in range(2)]
        assert [(await app.job(job_id)).status for job_id in jobs] == ["running", "queued"]
        may_end.set()
        for job_id in jobs:
            assert (await ended(app, job_id)).status == "completed"
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert await app.verify() == []


async def ended_after_release(app: Ficha, may_end: asyncio.Event) -> Any:
    """A job that was submitted to an idle worker, once it has ended."""
    await until_idle(app)
    receipt = await app.submit("draw", account="ana")
    may_end.set()
    return await ended(app, receipt.job_id)


async def until_idle(app: Ficha) -> None:
    """Until a worker has found nothing and stands there waiting."""
    lane = app.engine._lanes[0]
    while not lane._standing:
        await app.wait_for_work("gpu", 0.005)


async def test_a_claim_that_stands_is_withdrawn_or_answered_but_never_lost() -> None:
    app = shop("memory:")

    @app.tool(pool="gpu")
    async def draw(job: JobContext) -> None: ...

    async with app:
        await app.open_account("ana")
        left = app.stand(["gpu"], limit=1, worker="w1")
        assert left is not None
        assert left.withdraw()
        stays = app.stand(["gpu"], limit=5, worker="w2")
        late = app.stand(["default"], limit=5, worker="w3")
        assert stays is not None
        assert late is not None
        receipt = await app.submit("draw", account="ana")
        assert not stays.withdraw()
        assert [lease.job_id for lease in await stays.leases()] == [receipt.job_id]
        assert not late.answered.done()
    with pytest.raises(Overloaded):
        await late.leases()
