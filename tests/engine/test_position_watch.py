"""Watch: those who wait are told how, as it changes, and are asked about together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from ficha import Wait
from ficha.core import commands as c
from ficha.engine import position_watch
from ficha.engine.position_watch import PositionWatch, Watched
from ficha.engine.queries import Queries
from ficha.store.base import Unavailable
from tests.engine.engine_setup import StoreSetup, claimed, one, opened, submitted


async def test_how_many_jobs_wait_is_what_each_of_them_says(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine(), "ana")
    await one(engine, c.OpenAccount("bob", "one", 1_000))
    for pool, slots in (("full", 1), ("paused", None)):
        await one(engine, c.DeclarePool(pool, slots))
    await submitted(engine, job={"pool": "full"})
    await claimed(engine, pool="full")
    await one(engine, c.PausePool("paused"))
    jobs = [await submitted(engine, account) for account in ("ana", "bob", "bob", "ana")]
    jobs += [await submitted(engine, job={"pool": pool}) for pool in ("full", "paused")]
    later = await submitted(engine, delay_ms=3_600_000)
    held = jobs[0]
    queries = Queries(engine.store, engine.positions)
    views = {job_id: await queries.job(job_id) for job_id in (*jobs, later)}
    found = await queries.waits([*jobs, later, "no id"])
    assert found.keys() == set(jobs)
    for job_id, wait in found.items():
        view = views[job_id]
        assert view is not None
        assert wait == Wait(view.position, view.estimated_wait_s, view.waiting_for)
    assert {wait.waiting_for for wait in found.values()} == {"place", "account_limit", "pool_full", "pool_paused"}
    [lease] = await claimed(engine)
    assert lease.job.id == held
    assert (await queries.waits(jobs)).keys() == set(jobs) - {held}


class Line:
    """A line of jobs that the test moves, and what was asked about it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(position_watch, "EVERY_S", 0.001)
        self.waits: dict[str, Wait] = {}
        self.asked: list[set[str]] = []
        self.fault: Exception | None = None
        self.watch = PositionWatch(self._look)
        self._looked = asyncio.Event()

    async def _look(self, job_ids: Iterable[str]) -> dict[str, Wait]:
        self.asked.append(set(job_ids))
        self._looked.set()
        if self.fault is not None:
            raise self.fault
        return self.waits

    async def looked(self, times: int = 1) -> None:
        """After so many looks have come to their end."""
        async with asyncio.timeout(40):
            for _ in range(times + 1):
                self._looked.clear()
                await self._looked.wait()

    def watched(self, job_id: str) -> tuple[Watched, list[str]]:
        calls: list[str] = []
        return Watched(self.watch, job_id, lambda: calls.append(job_id)), calls


async def test_only_what_changes_is_news(memory: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await opened(await memory.engine())
    job = await Queries(engine.store, engine.positions).job(await submitted(engine))
    assert job is not None
    line = Line(monkeypatch)
    watched, calls = line.watched(job.id)
    line.waits = {job.id: Wait(1, None, "place")}
    watched.see(job, told=True)
    await line.looked(2)
    assert calls == []
    for wait, is_news in (
        (Wait(2, None, "place"), True),
        (Wait(2, 7.0, "place"), True),
        (Wait(2, 6.5, "place"), False),
        (Wait(2, 6.5, "pool_paused"), True),
    ):
        line.waits = {job.id: wait}
        await line.looked()
        assert (calls, watched.news) == (([job.id], wait) if is_news else ([], None))
        calls.clear()
        watched.news = None
    line.fault = Unavailable("away")
    await line.looked(3)
    assert calls == []
    line.fault = None
    line.waits = {}
    await line.looked(position_watch.MAX_MISSES)
    assert watched.is_lost
    watched.stop()
    if line.watch._task is not None:
        await line.watch._task
    assert line.watch._timer is None, "nobody is left to look for"
