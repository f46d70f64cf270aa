"""What a handler can be and say, and its steps and checkpoints, within one process."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ficha import Accepted, Cancel, FinalError, JobContext, Partial, Retry
from tests.support.shop import balance, history
from tests.worker.in_process import app_on, ended, run_one

# What a handler can be, and what it can say


async def test_an_async_handler_runs_with_its_payload_and_its_result_is_kept(url: str) -> None:
    app = app_on(url)
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
    app = app_on()
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


async def returns_bytes(job: JobContext) -> Any:
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
    app = app_on()
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
    app = app_on(url)
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
    app = app_on(url)
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
    app = app_on(url)

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
    app = app_on(url)
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
    app = app_on()
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
