"""A handler that a test calls directly sees what a worker would show it, and what it says is kept."""

import pytest

from ficha import InvalidArgument, JobContext, StepMismatch, ThreadJobContext
from ficha.testing import FakeJobContext


async def double(number: int) -> int:
    return 2 * number


async def handler(job: JobContext, number: int) -> dict:
    first = await job.step("first", double, number)
    await job.checkpoint("HALF", progress=50, data={"first": first})
    async for item in job.items("all", [1, 2, 3]):
        await job.progress(50 + 10 * item)
    await job.partial({"first": first})
    await job.log("half done", number=number)
    return {"second": await job.step("second", lambda: first + 1), "resumed": job.resume_point}


def plain(job: ThreadJobContext, number: int) -> dict:
    first = job.step("first", double, number)
    job.checkpoint("HALF", progress=50, data={"first": first})
    for item in job.items("all", [1, 2, 3]):
        job.progress(50 + 10 * item)
    job.partial({"first": first})
    job.log("half done", number=number)
    return {"second": job.step("second", lambda: first + 1), "resumed": job.resume_point}


@pytest.mark.parametrize("kind", ["coroutine", "plain function"])
async def test_what_a_handler_says_is_kept(kind: str) -> None:
    job = FakeJobContext({"number": 4}, account="ana", session="tab", attempt=2)
    result = await handler(job, 4) if kind == "coroutine" else plain(job.in_thread, 4)
    assert result == {"second": 9, "resumed": None}
    assert job.stored == {"first": 8, "second": 9, "all[0]": None, "all[1]": None, "all[2]": None}
    assert job.checkpoints == [("HALF", 50, {"first": 8})]
    assert (job.reported, job.partials, job.lines) == ([60, 70, 80], [{"first": 8}], ["half done number=4"])
    seen = job if kind == "coroutine" else job.in_thread
    assert (seen.account, seen.session, seen.attempt, seen.payload) == ("ana", "tab", 2, {"number": 4})
    assert seen.correlation_id == seen.id


@pytest.mark.parametrize("kind", ["coroutine", "plain function"])
async def test_a_resumed_run_skips_what_is_stored(kind: str) -> None:
    job = FakeJobContext(stored={"first": 100, "all[0]": None}, resume_point="HALF", resume_data={"first": 100})
    result = await handler(job, 4) if kind == "coroutine" else plain(job.in_thread, 4)
    assert result == {"second": 101, "resumed": "HALF"}
    assert job.reported == [70, 80]
    assert job.resume_data == {"first": 100}


@pytest.mark.parametrize("kind", ["coroutine", "plain function"])
async def test_a_fault_is_raised_at_its_step(kind: str) -> None:
    job = FakeJobContext(faults={"second": TimeoutError("late")})
    with pytest.raises(TimeoutError, match="late"):
        await handler(job, 4) if kind == "coroutine" else plain(job.in_thread, 4)
    assert job.stored["first"] == 8


async def test_what_a_worker_refuses_is_refused() -> None:
    job = FakeJobContext()
    await job.step("one", double, 1)
    with pytest.raises(StepMismatch):
        await job.step("one", double, 2)
    with pytest.raises(InvalidArgument):
        await job.progress(101)


async def test_a_handler_can_be_asked_to_stop() -> None:
    job = FakeJobContext()
    job.stop()
    assert job.cancelled
    assert job.in_thread.cancelled
