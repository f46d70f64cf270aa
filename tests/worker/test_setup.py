"""Tools that are set up before their first job, such as by loading a model; and what becomes of their jobs if not."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ficha import Ficha, JobContext, Pool, ThreadJobContext
from ficha.worker import setups
from ficha.worker.failure import SetupFailed
from ficha.worker.tool_threads import ToolThreads
from tests.support.shop import balance, history
from tests.support.waiting import until
from tests.worker import handlers
from tests.worker.child_runs import a_run, children, opened
from tests.worker.in_process import app_on, ended
from tests.worker.test_threads import burst, submit, working


class Loader:
    """A setup: counts its calls, and fails as long as it is told to."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.threads: list[int] = []
        self._lock = threading.Lock()

    def __call__(self) -> str:
        with self._lock:
            self.threads.append(threading.get_ident())
        if self.fails:
            raise OSError("no device, token=sk-abcdefghijklmnop1234")
        return f"model of {threading.get_ident()}"


def declare(app: Ficha, kind: str, loader: Loader, **options: Any) -> str:
    """Declares a tool of the kind; its result is what the handler found in `job.setup`. Returns its name."""

    async def load() -> str:
        return loader()

    def plain(job: ThreadJobContext) -> str:
        return str(job.setup)

    def plain_group(jobs: list[ThreadJobContext]) -> list[str]:
        return [str(job.setup) for job in jobs]

    async def coroutine(job: JobContext) -> str:
        return str(job.setup)

    async def coroutine_group(jobs: list[JobContext]) -> list[str]:
        return [str(job.setup) for job in jobs]

    handler: Callable[..., Any] = {
        "plain": plain,
        "plain group": plain_group,
        "coroutine": coroutine,
        "coroutine, plain setup": coroutine,
        "coroutine group": coroutine_group,
    }[kind]
    if "group" in kind:
        options |= {"jobs_per_call": 2, "linger_ms": 1}
    is_plain = kind.startswith("plain") or kind.endswith("plain setup")
    app.tool(name="draw", cost=5, setup=loader if is_plain else load, **options)(handler)
    return "draw"


KINDS = ("plain", "plain group", "coroutine", "coroutine, plain setup", "coroutine group")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_is_set_up_once_and_each_handler_gets_what_that_gave(kind: str) -> None:
    app, loader = app_on(), Loader()
    declare(app, kind, loader, max_calls=1)
    async with app:
        jobs = await submit(app, "draw", 6)
        assert await burst(app) == 6
        (thread,) = loader.threads
        assert {(await app.job(job_id)).result for job_id in jobs} == {f"model of {thread}"}


async def test_each_thread_has_a_setup_of_its_own() -> None:
    app, loader = app_on(), Loader()
    all_are_there = threading.Barrier(3)

    @app.tool(setup=loader)
    def draw(job: ThreadJobContext) -> bool:
        all_are_there.wait(20)
        return bool(job.setup == f"model of {threading.get_ident()}")

    async with app:
        jobs = await submit(app, "draw", 9)
        assert await burst(app, concurrency=3) == 9
        assert [(await app.job(job_id)).result for job_id in jobs] == [True] * 9
    assert len(loader.threads) == len(set(loader.threads)) == 3


@pytest.mark.parametrize("handler", [handlers.shows_setup, handlers.shows_setup_in_thread])
async def test_a_child_process_is_set_up_once(handler: Callable[..., Any]) -> None:
    async with opened() as processes:
        first = await processes.call(a_run(handler, setup_=handlers.loads))
        assert first == ["loaded", first[1], 1]
        assert first[1] != os.getpid()
        assert await processes.call(a_run(handler, setup_=handlers.loads)) == first


async def test_a_child_process_can_be_set_up_before_its_first_job() -> None:
    run = a_run(handlers.shows_setup, setup_=handlers.loads)
    async with opened() as processes:
        await processes.set_up(run.tool)
        (child,) = children()
        assert await processes.call(run) == ["loaded", child, 1]


@pytest.mark.parametrize(
    ("setup", "told"),
    [
        (handlers.cannot_load, "OSError: no device"),
        (handlers.dies_loading, "its process exited with 3"),
        (handlers.is_killed_loading, "its process was ended by signal 9 (SIGKILL)"),
    ],
)
async def test_a_child_process_that_could_not_be_set_up_is_no_failure_of_the_job(
    setup: Callable[[], Any], told: str
) -> None:
    async with opened() as processes:
        for _ in range(2):
            with pytest.raises(SetupFailed) as failed:
                await processes.call(a_run(handlers.shows_setup, setup_=setup))
            assert failed.value.error == told


@pytest.mark.parametrize("kind", KINDS)
async def test_a_worker_sets_its_tools_up_before_it_claims_and_tries_again_if_that_fails(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(setups, "FIRST_S", 0.01)
    app, loader = app_on(heartbeat_s=0.02, lease_s=5), Loader(fails=True)
    declare(app, kind, loader)
    async with app, asyncio.timeout(30), working(app, name="w1"):
        jobs = await submit(app, "draw", 2)
        told = "tool draw could not be set up: OSError: no device, token=[hidden]"
        await until(lambda: has_problem(app, "w1", told))
        await until(lambda: len(loader.threads) >= 3, what="it is tried again and again")
        assert {(await app.job(job_id)).status for job_id in jobs} == {"queued"}
        loader.fails = False
        assert {(await ended(app, job_id)).status for job_id in jobs} == {"completed"}
        await until(lambda: has_problem(app, "w1", None))
        assert await history(app, jobs[0]) == ["submitted", "claimed", "started", "completed"]
    errors = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert "tool draw could not be set up; for 0 s this worker takes no jobs of pool default" in errors[0].message
    assert "OSError: no device" in errors[0].exception  # type: ignore[attr-defined]
    assert "sk-abcdef" not in caplog.text


async def has_problem(app: Ficha, name: str, problem: str | None) -> bool:
    return [worker.problem for worker in (await app.workers()).items if worker.name == name] == [problem]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_whose_tool_cannot_be_set_up_goes_back_and_uses_up_no_attempt(url: str, kind: str) -> None:
    app, loader = app_on(url), Loader(fails=True)
    declare(app, kind, loader, attempts=1)
    told = "could not be set up: OSError: no device, token=[hidden]"
    async with app:
        jobs = await submit(app, "draw", 2)
        assert await burst(app, worker="w1") == 2, "it ends, and leaves what it cannot run"
        for job_id in jobs:
            job = await app.job(job_id)
            assert (job.status, job.attempts, job.recoveries, job.refunded) == ("queued", 0, 0, 0)
            [event] = [event for event in await app.events(job=job_id) if event.kind == "returned"]
            assert event.data["reason"] == f"the tool {told}"
        assert await has_problem(app, "w1", f"tool draw {told}")
        loader.fails = False
        assert await burst(app, worker="w1") == 2
        assert await has_problem(app, "w1", None)
        for job_id in jobs:
            job = await app.job(job_id)
            assert (job.status, job.attempts, job.recoveries, job.refunded) == ("completed", 0, 0, 0)
        assert await balance(app) == 1_000 - 10
        assert await app.verify() == []


async def test_a_slow_setup_is_not_begun_again_for_the_next_job_if_the_first_runs_out_of_time() -> None:
    app = app_on()
    begun, may_load = threading.Event(), threading.Event()
    calls: list[str] = []

    def load() -> str:
        calls.append("load")
        begun.set()
        assert may_load.wait(20)
        return "model"

    @app.tool(setup=load, max_calls=1)
    def draw(job: ThreadJobContext) -> None: ...

    threads = ToolThreads(app.tools["draw"])
    first = asyncio.create_task(threads.call(lambda *_: calls.append("first")))
    await asyncio.to_thread(begun.wait, 20)
    first.cancel()
    await asyncio.sleep(0)
    threads.give_up(first)
    second = asyncio.create_task(threads.call(lambda setup, _: setup))
    await asyncio.wait([first])
    may_load.set()
    assert await second == "model"
    assert first.cancelled()
    assert calls == ["load"]
    threads.close()


async def test_a_tool_that_cannot_be_set_up_keeps_no_other_pool_waiting() -> None:
    app, loader = app_on(pools=[Pool("gpu"), Pool("cpu")]), Loader(fails=True)
    declare(app, "plain", loader, pool="gpu")

    @app.tool(pool="cpu")
    async def count(job: JobContext) -> int:
        return 1

    async with app, asyncio.timeout(30), working(app, concurrency=1):
        (broken,) = await submit(app, "draw", 1)
        await until(lambda: loader.threads)
        for _ in range(3):
            other = (await app.submit("count", account="ana")).job_id
            assert (await ended(app, other)).result == 1
        assert (await app.job(broken)).status == "queued"


async def test_a_job_that_is_cancelled_during_the_setup_leaves_it_to_the_others() -> None:
    app = app_on()
    begun, may_load = asyncio.Event(), asyncio.Event()
    calls = 0

    async def load() -> str:
        nonlocal calls
        calls += 1
        begun.set()
        await may_load.wait()
        return "model"

    @app.tool(setup=load)
    async def draw(job: JobContext) -> Any:
        return job.setup

    async with app, asyncio.timeout(30):
        first, second = await submit(app, "draw", 2)
        worker = asyncio.create_task(app.run_worker(burst=True))
        await begun.wait()
        await app.cancel(first)
        await until(lambda: is_running(app, second))
        may_load.set()
        assert (await ended(app, second)).result == "model"
        assert (await app.job(first)).status == "cancelled"
        assert await worker == 2
    assert calls == 1


async def is_running(app: Ficha, job_id: str) -> bool:
    return (await app.job(job_id)).status == "running"


# Devices


async def test_each_thread_is_bound_to_a_device() -> None:
    app = app_on()
    both_are_there = threading.Barrier(2)

    def load(device: str) -> str:
        return f"model on {device}"

    @app.tool(setup=load, devices=["cuda:0", "cuda:1"])
    def draw(job: ThreadJobContext) -> list[Any]:
        both_are_there.wait(20)
        return [threading.get_ident(), job.device, job.setup]

    async with app:
        jobs = await submit(app, "draw", 6)
        assert await burst(app, concurrency=6) == 6
        results = {tuple((await app.job(job_id)).result) for job_id in jobs}
    assert sorted(result[1:] for result in results) == [(f"cuda:{n}", f"model on cuda:{n}") for n in range(2)]
    assert app.tools["draw"].max_calls == 2, "without more, each device has a call of its own"


@pytest.mark.parametrize("handler", [handlers.shows_device, handlers.shows_device_in_thread])
async def test_each_child_process_is_bound_to_a_device(handler: Callable[..., Any], tmp_path: Path) -> None:
    devices = ["cuda:0", "cuda:1"]
    options: dict[str, Any] = {"setup_": handlers.loads_on, "devices_": devices, "folder": tmp_path}
    async with opened() as processes, asyncio.timeout(30):
        both = [asyncio.create_task(processes.call(a_run(handler, **options, others=1))) for _ in devices]
        found = sorted(await asyncio.gather(*both))
        assert found == [[device, f"model on {device}"] for device in devices]
        assert await processes.call(a_run(handler, **options, others=0)) in found
