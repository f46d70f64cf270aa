"""The trigger: an application hears that there is work, so that it can start a worker where none runs by itself."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ficha import Ficha, JobContext, Pool
from ficha.core.commands import NoteCallback


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
