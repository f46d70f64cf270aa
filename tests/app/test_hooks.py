"""Hooks: called once for each job that ended, after the commit, whoever ended it and whatever dies."""

import asyncio
import signal
from pathlib import Path

import pytest

from ficha import Ficha, JobView
from ficha.testing import Sandbox
from ficha.worker import due_runner, hook_runner
from tests.support import processes
from tests.support.shop import World, declare, shop
from tests.support.waiting import until

pytestmark = pytest.mark.long_on("postgresql")


def listening(app: Ficha, told: list[tuple[str, str, str]]) -> Ficha:
    @app.on("completed", "cancelled")
    async def good(job: JobView) -> None:
        told.append(("good", job.id, job.status))

    @app.on("failed", tool="upscale")
    def bad(job: JobView) -> None:
        told.append(("bad", job.id, job.status))

    return app


async def open_with_hooks(world: World, told: list[tuple[str, str, str]]) -> Ficha:
    """The shop with its hooks, which are declared before it is opened."""
    app = await world.open(prepare=lambda app: listening(app, told))
    await app.open_account("ana", plan="open", credits=1_000)
    return app


async def test_each_job_is_told_of_once_as_it_ended(world: World) -> None:
    told: list[tuple[str, str, str]] = []
    app = await open_with_hooks(world, told)
    ids = [(await app.submit("upscale", {"image": "x"}, account="ana")).job_id for _ in range(3)]
    await app.cancel(ids[2])
    world.clock.advance(1)
    (lease,) = await app.claim("gpu", worker="w1")
    await app.fail(lease, "no")
    assert [(hook.hook, hook.job_id, hook.attempts) for hook in await app.hooks()] == [
        ("good", ids[2], 0),
        ("bad", ids[0], 0),
    ]
    assert told == []
    await app.run_worker(burst=True)
    assert sorted(told) == [("bad", ids[0], "failed"), ("good", ids[1], "completed"), ("good", ids[2], "cancelled")]
    assert await app.hooks() == []
    await app.run_worker(burst=True)
    assert len(told) == 3
    assert await app.verify() == []


async def test_a_hook_that_fails_is_called_again_later_and_its_job_stays_as_it_is(world: World) -> None:
    told: list[tuple[str, str, str]] = []
    calls: list[str] = []

    def prepare(app: Ficha) -> None:
        @app.on()
        async def shaky(job: JobView) -> None:
            calls.append(job.id)
            if len(calls) < 3:
                raise ConnectionError("nobody answers")

        listening(app, told)

    app = await world.open(prepare=prepare)
    await app.open_account("ana", plan="open", credits=100)
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    for failures in (1, 2):
        await app.run_worker(burst=True)
        assert len(calls) == failures
        [hook] = await app.hooks()
        assert (hook.hook, hook.attempts, hook.error) == ("shaky", failures, "ConnectionError: nobody answers")
        await app.run_worker(burst=True)
        assert len(calls) == failures
        world.clock.advance(2 ** (failures - 1))
    await app.run_worker(burst=True)
    assert (calls, await app.hooks()) == ([job_id] * 3, [])
    assert [name for name, *_ in told] == ["good"]
    assert (await app.job(job_id)).status == "completed"


async def test_a_hook_may_submit_and_the_burst_runs_that_too(world: World) -> None:
    def prepare(app: Ficha) -> None:
        @app.on("completed", tool=["upscale"])
        async def embed(job: JobView) -> None:
            await app.submit("embed", {"text": job.id}, account=job.account, idempotency_key=f"embed-{job.id}")

    app = await world.open(prepare=prepare)
    await app.open_account("ana", plan="open", credits=100)
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    assert await app.run_worker(burst=True) == 2
    [embedded] = (await app.jobs(tool="embed", include=["payload"])).items
    assert (embedded.payload, embedded.status) == ({"text": job_id}, "completed")


async def test_a_coroutine_that_takes_too_long_is_cancelled_and_called_again(world: World) -> None:
    calls: list[str] = []

    def prepare(app: Ficha) -> None:
        @app.on("cancelled", timeout=0.01)
        async def slow(job: JobView) -> None:
            calls.append(job.id)
            if len(calls) == 1:
                await asyncio.Event().wait()

    app = await world.open(prepare=prepare)
    await app.open_account("ana", plan="open", credits=100)
    await app.cancel((await app.submit("upscale", {"image": "x"}, account="ana")).job_id)
    await app.run_worker(burst=True)
    [hook] = await app.hooks()
    assert hook.error == "TimeoutError: "
    world.clock.advance(1)
    await app.run_worker(burst=True)
    assert (len(calls), await app.hooks()) == (2, [])


async def test_two_workers_share_the_hooks_and_each_is_called_once(world: World) -> None:
    told: list[tuple[str, str, str]] = []
    app = await open_with_hooks(world, told)
    ids = [(await app.submit("upscale", {"image": "x"}, account="ana")).job_id for _ in range(50)]
    for job_id in ids:
        await app.cancel(job_id)
    await asyncio.gather(*(app.run_worker(burst=True, worker=f"w{number}") for number in range(2)))
    assert sorted(job_id for _, job_id, _ in told) == sorted(ids)


async def test_a_running_worker_calls_hooks_as_jobs_end_in_another_application(url: str) -> None:
    told: list[tuple[str, str, str]] = []
    async with listening(shop(url), told) as app:
        await app.open_account("ana", plan="open", credits=100)
        working = asyncio.create_task(app.run_worker(["cpu"]))
        other = app if url == "memory:" else listening(shop(url), told)
        async with asyncio.timeout(30):
            if other is not app:
                await other.open()
            job_id = (await other.submit("upscale", {"image": "x"}, account="ana")).job_id
            await other.cancel(job_id)
            await until(lambda: told)
            await until(lambda: _has_none(app))
            if other is not app:
                await other.close()
        assert told == [("good", job_id, "cancelled")]
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _has_none(app: Ficha) -> bool:
    return not await app.hooks()


async def test_a_running_worker_calls_a_hook_again_when_its_pause_is_over(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_runner, "POLL_S", 3_600.0)
    calls: list[str] = []
    app = shop(url)

    @app.on()
    async def shaky(job: JobView) -> None:
        calls.append(job.id)
        if len(calls) == 1:
            raise ConnectionError("nobody answers")

    async with app:
        await app.open_account("ana", plan="open", credits=100)
        working = asyncio.create_task(app.run_worker(["cpu"]))
        job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
        await app.cancel(job_id)
        await until(lambda: len(calls) == 2, within_s=20)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert calls == [job_id, job_id]


async def test_hooks_that_end_during_a_look_leave_none_waiting_for_the_next_poll(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_runner, "POLL_S", 3_600.0)
    monkeypatch.setattr(hook_runner, "AT_ONCE", 2)
    told: list[str] = []
    second_look = asyncio.Event()

    def prepare(app: Ficha) -> None:
        @app.on()
        async def tell(job: JobView) -> None:
            told.append(job.id)
            if len(told) == 2:
                await second_look.wait()

    app = await world.open(prepare=prepare)
    await app.open_account("ana", plan="open", credits=100)
    for _ in range(5):
        await app.cancel((await app.submit("upscale", {"image": "x"}, account="ana")).job_id)
    due, end = app.due_hooks, app.end_hook
    looks = iter(range(2))
    recorded: list[str] = []

    async def looking(*asked: object) -> object:
        found = await due(*asked)
        if next(looks, None) == 1:
            second_look.set()
            await until(lambda: len(recorded) == 2)
        return found

    async def ending(*asked: object) -> object:
        said = await end(*asked)
        recorded.append("ended")
        return said

    monkeypatch.setattr(app, "due_hooks", looking)
    monkeypatch.setattr(app, "end_hook", ending)
    working = asyncio.create_task(app.run_worker(["cpu"]))
    await until(lambda: len(told) == 5, within_s=20)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_hooks_wait_for_the_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str, str]] = []
    monkeypatch.setattr(hook_runner, "away_pause_s", lambda tries: 0.0)
    app = await open_with_hooks(world, told)
    due, failures = app.due_hooks, iter(range(2))

    async def failing(*asked: object) -> object:
        if next(failures, None) is not None:
            raise hook_runner.StoreError("away")
        return await due(*asked)

    monkeypatch.setattr(app, "due_hooks", failing)
    await app.cancel((await app.submit("upscale", {"image": "x"}, account="ana")).job_id)
    working = asyncio.create_task(app.run_worker(["cpu"]))
    await until(lambda: told)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_the_sandbox_calls_hooks() -> None:
    told: list[tuple[str, str, str]] = []
    app = listening(shop(), told)
    async with Sandbox(app) as sandbox:
        await app.open_account("ana", plan="open", credits=100)
        job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
        await sandbox.run()
    assert told == [("good", job_id, "completed")]


def test_what_makes_no_sense_is_refused_when_it_is_declared() -> None:
    app = declare(Ficha("memory:", pools=shop()._pools.values()))
    with pytest.raises(ValueError, match="not as 'done'"):
        app.on("done")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout must be a number of seconds"):
        app.on("failed", timeout=0)
    app.on("failed", name="same")(print)
    with pytest.raises(ValueError, match="the hook 'same' is declared twice"):
        app.on("failed", name="same")(print)
    with pytest.raises(ValueError, match="a hook's name"):
        app.on("failed", name="a b\nc")(print)


async def test_a_hook_of_no_tool_and_one_that_comes_too_late_are_refused() -> None:
    app = shop()
    app.on("failed", tool="upscael")(print)
    with pytest.raises(ValueError, match="the hook 'print' is for the tool 'upscael', which is not declared"):
        await app.open()
    async with shop() as app:
        with pytest.raises(RuntimeError, match="declared too late"):
            app.on("failed")(print)


DYING = """
import asyncio, os, signal, sys
from ficha import Ficha
from ficha.worker import due_runner, hook_runner

hook_runner.GRACE_S = 0.0
app = Ficha(sys.argv[1])

@app.tool()
async def work(job) -> None: ...

@app.on("completed", timeout=0.2)
def told(job) -> None:
    with open(sys.argv[2], "a") as file:
        file.write(job.id + "\\n")
    if sys.argv[3] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with app:
        if sys.argv[3] == "dies":
            await app.open_account("ana")
            await app.submit("work", {}, account="ana")
            await app.run_worker(burst=True)
        while await app.hooks():
            await app.run_worker(burst=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
async def test_a_hook_whose_process_was_killed_before_its_end_was_recorded_is_called_again(
    url: str, tmp_path: Path
) -> None:
    called = tmp_path / "called"

    def run(how: str) -> int:
        return processes.run("tests.support.program", DYING, url, str(called), how).returncode

    assert await asyncio.to_thread(run, "dies") == -signal.SIGKILL
    assert len(called.read_text().split()) == 1
    assert await asyncio.to_thread(run, "lives") == 0
    first, second = called.read_text().split()
    assert first == second
    async with Ficha(url) as app:
        assert (await app.job(first)).status == "completed"
        assert await app.hooks() == []
