"""The read side under many who ask at once."""

import asyncio

import pytest

from ficha.engine.queries import Queries
from tests.engine.engine_setup import StoreSetup, opened, submitted


async def test_thousands_who_poll_ask_about_the_pools_once(memory: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may need longer for all of them than an answer is kept.
    monkeypatch.setattr("ficha.engine.queries.POOLS_S", 60.0)
    store = await memory.watched()
    engine = await opened(await memory.engine(store))
    job_id = await submitted(engine)
    queries = Queries(store, engine.positions)
    await engine.positions.of(job_id)
    store.reads.clear()
    store.read_gate.clear()
    asking = [asyncio.create_task(queries.job(job_id)) for _ in range(1_000)]
    await store.until(lambda: store.reads["GetJobs"] == 1_000)
    store.read_gate.set()
    # One of them gives up; the answer is not taken from the others.
    asking.pop().cancel()
    views = await asyncio.gather(*asking)
    assert {view.waiting_for for view in views if view is not None} == {"place"}
    assert store.reads["ListPools"] == 1
