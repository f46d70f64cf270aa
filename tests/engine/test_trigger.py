"""The trigger: an application hears that there is work, so that it can start a worker where none runs by itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ficha import Ficha, JobContext, Pool, ReadyJob
from ficha.core.commands import NoteCallback
from ficha.engine import trigger
from tests.support.waiting import until


@pytest.mark.req("D8")
async def test_a_submit_can_trigger_a_worker_in_a_time_budget() -> None:
    woken: list[tuple[str, ...]] = []

    async def run_serverless(pools: tuple[str, ...]) -> None:
        woken.append(pools)
        await app.run_worker(list(pools), burst=True, max_seconds=45)

    app = Ficha("memory:", pools=[Pool("gpu"), Pool("cpu")], on_work=run_serverless)

    @app.tool(pool="gpu")
    async def draw(job: JobContext) -> str:
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana")
        receipt = await app.submit("draw", account="ana")
        while (job := await app.job(receipt.job_id)).finished_at is None:
            await app.wait_for_work("gpu", 0.01)
        assert job.result == "done"
    assert woken == [("gpu",)], "an end frees a slot, but brings no work"


@pytest.mark.req("D8")
async def test_a_providers_call_back_triggers_a_worker_too() -> None:
    woken: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()
    app = Ficha("memory:", pools=[Pool("gpu")], on_work=woken.put)

    @app.tool(pool="gpu")
    async def draw(job: JobContext) -> None: ...

    app.policy = replace(app.policy, provider_tools=frozenset({"draw"}))
    async with app, asyncio.timeout(20):
        await app.open_account("ana")
        receipt = await app.submit("draw", account="ana")
        assert await woken.get() == ("gpu",)
        [lease] = await app.claim("gpu", worker="w1")
        await app.accept(lease, "ref-1")
        await app.engine.call(NoteCallback(receipt.job_id, 0, "unsigned", body="{}"))
        assert await woken.get() == ("gpu",)
    assert woken.empty()


async def test_what_the_function_raises_loses_no_job_and_the_next_submit_calls_it_again(caplog: Any) -> None:
    calls = 0
    called = asyncio.Event()

    def broken(pools: tuple[str, ...]) -> None:
        nonlocal calls
        calls += 1
        called.set()
        raise RuntimeError("no such function")

    app = Ficha("memory:", on_work=broken)

    @app.tool()
    async def draw(job: JobContext) -> None: ...

    async with app, asyncio.timeout(20):
        await app.open_account("ana")
        for _ in range(2):
            called.clear()
            await app.submit("draw", account="ana")
            await called.wait()
        assert (await app.stats()).by_status == {"queued": 2}
    assert calls == 2
    assert "the jobs still wait for a worker" in caplog.text


def telling(url: str, told: list[str], **settings: Any) -> Ficha:
    """An application that notes which jobs it is told of."""

    def on_work(pools: tuple[str, ...], jobs: tuple[ReadyJob, ...]) -> None:
        assert {job.pool for job in jobs} <= {*pools}
        told.extend(f"{job.tool} {job.id}" for job in jobs)

    app = Ficha(url, on_work=on_work, **{"lease_s": 0.3, "sweep_s": 0.05} | settings)

    @app.tool(attempts=2, backoff=0.01)
    async def draw(job: JobContext) -> None: ...

    return app


async def test_new_jobs_are_told_and_those_taken_back_from_a_dead_worker_and_those_tried_again() -> None:
    told: list[str] = []
    async with telling("memory:", told) as app:
        await app.open_account("ana")
        first = f"draw {(await app.submit('draw', account='ana')).job_id}"
        await until(lambda: told == [first])
        await app.claim("default", worker="w1")
        await until(lambda: told == [first] * 2)
        (lease,) = await app.claim("default", worker="w2")
        await app.fail(lease, "no")
        await until(lambda: told == [first] * 3)
        await app.submit_batch([("draw", {})] * 3, account="ana")
        await until(lambda: len(told) == 6)
        assert {*told} == {f"draw {job.id}" for job in (await app.jobs()).items}


async def test_whoever_takes_a_job_back_tells_of_it_also_a_separate_connection(tmp_path: Path) -> None:
    url, told = f"sqlite:///{tmp_path}/ficha.db", []  # type: tuple[str, list[str]]
    async with telling(url, [], sweep_by_itself=False) as app:
        await app.open_account("ana")
        job_id = (await app.submit("draw", account="ana")).job_id
        await app.claim("default", worker="w1")
    async with telling(url, told).separate_operations() as operations:

        async def is_told() -> bool:
            await operations.stats()
            return told == [f"draw {job_id}"]

        await until(is_told)


async def test_a_call_that_failed_is_made_again_with_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trigger, "AGAIN_S", 0.01)
    told: list[tuple[str, ...]] = []

    async def on_work(pools: tuple[str, ...], jobs: tuple[ReadyJob, ...]) -> None:
        told.append(tuple(job.id for job in jobs))
        if len(told) < 3:
            raise ConnectionError("the broker is away")

    app = Ficha("memory:", on_work=on_work)

    @app.tool()
    async def draw(job: JobContext) -> None: ...

    async with app:
        await app.open_account("ana")
        job_id = (await app.submit("draw", account="ana")).job_id
        await until(lambda: len(told) == 3)
    assert told == [(job_id,)] * 3


async def test_many_jobs_are_told_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trigger, "JOBS_AT_ONCE", 2)
    told: list[str] = []
    async with telling("memory:", told) as app:
        await app.open_account("ana")
        await app.submit_batch([("draw", {})] * 5, account="ana")
        await until(lambda: len(told) == 5)
    assert len(set(told)) == 5
