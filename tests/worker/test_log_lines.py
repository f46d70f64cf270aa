"""Lines of `job.log`: all are kept up to the limit of a job's history, which says what it left out."""

from __future__ import annotations

import asyncio

import pytest

from ficha import CheckpointManager, Ficha, Limits
from tests.worker import handlers
from tests.worker.in_process import app_on, run_one

FULL = "a job's history keeps 12 events (Limits.job_events): its handler's further ones are left out"


async def lines_of(app: Ficha, job_id: str) -> list[str]:
    return [event.data["text"] for event in await app.events(job=job_id, limit=1_000) if event.kind == "log"]


@pytest.mark.long_on("postgresql")
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_full_history_says_so_and_at_the_end_how_many_lines_it_left_out(url: str, isolation: str) -> None:
    async with app_on(url, limits=Limits(job_events=12)) as app:
        app.tool(isolation="auto" if isolation == "thread" else "process")(handlers.says_lines)
        job = await run_one(app, "says_lines", {"lines": 20})
        assert job.status == "completed"
        found = await lines_of(app, job.id)
        kept = len(found) - 2
        assert found == [
            *(f"line {number}" for number in range(kept)),
            FULL,
            f"{20 - kept} log lines were left out here; the worker's log has them",
        ]
        kinds = [event.kind for event in await app.events(job=job.id, limit=1_000)]
        assert kinds.index("log") + kept == 12, "the limit counts the events of all kinds"


async def test_two_thousand_lines_are_all_kept(url: str) -> None:
    if url != "memory:":
        return
    async with app_on(url) as app:
        app.tool()(handlers.says_lines)
        job = await run_one(app, "says_lines", {"lines": 2_000})
        assert len(await app.events(job=job.id, limit=1_000)) == 1_000
        assert job.status == "completed"
        found = [event async for event in _all_lines(app, job.id)]
        assert found == [f"line {number}" for number in range(2_000)]


async def _all_lines(app: Ficha, job_id: str):  # type: ignore[no-untyped-def]
    after = 0
    while page := await app.events(job=job_id, after=after, limit=1_000):
        for event in page:
            if event.kind == "log":
                yield event.data["text"]
        after = page[-1].number


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_code_with_its_own_loop_says_it_too(url: str) -> None:
    async with app_on(url, limits=Limits(job_events=6)) as app:
        app.tool()(handlers.says_lines)
        await app.open_account("ana", credits=10)
        receipt = await app.submit("says_lines", {"lines": 3}, account="ana")

        def work() -> None:
            with CheckpointManager(app.unopened(), receipt.job_id) as manager:
                manager.start()
                handlers.says_lines(manager.job, 10)
                manager.complete({})

        await asyncio.to_thread(work)
        found = await lines_of(app, receipt.job_id)
        assert found[-1] == f"{10 - (len(found) - 2)} log lines were left out here; the worker's log has them"
