"""What a worker that has nothing to do asks of its database, statement by statement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from ficha import Ficha
from ficha.core import commands as c
from ficha.core.outcomes import Claimed, Elected, Refusal
from ficha.core.policy import Plan, Policy
from ficha.engine import figures, sweeper
from ficha.engine.engine import Engine
from ficha.store.base import HasOwnClocks, Store
from ficha.store.sqlite import SqliteStore
from ficha.store.sqlite import store as store_module
from ficha.store.sqlite import wal as wal_module
from ficha.worker import worker
from tests.stores.sqlite_setup import COMMITTER, a_submit, journal, moved, opened

POLICY = Policy(plans={"pro": Plan("pro", priority=10)})
WORD = c.RegisterWorker("w1", "host", 1, ("gpu", "cpu"), 10, "1", 10_000)
CLAIM = c.Claim("w1", ("gpu", "cpu"), 10)
MOST_PER_S = 2.0
MOST_OF_SQLITE_PER_S = 3.0
"""There, the process that sweeps also looks at its clock."""
NEVER_S = float("inf")


@asynccontextmanager
async def idle(store: Store) -> AsyncIterator[Engine]:
    """An engine that has been asked everything once before, and sweeps only when it is told to."""
    await store.migrate()
    await store.open()
    engine = Engine(store, POLICY, sweep_interval_s=NEVER_S)
    await engine.start(sweep=False, listen=False)
    try:
        await engine.call_many([c.DeclarePool("gpu", 3), c.DeclarePool("cpu", None)])
        for _ in range(2):
            await turn(engine, lambda command: engine.call(command))
        yield engine
    finally:
        await engine.stop()
        await store.close()


async def turn(engine: Engine, call: Callable[[c.Command], Awaitable[Any]]) -> None:
    assert await call(CLAIM) == Claimed(())
    assert isinstance(await call(c.Elect(sweeper.DUTY, "us", sweeper.LEAD_MS)), Elected)
    await call(WORD)
    assert not await engine.clock.is_doubted()
    assert not await engine.sweep()


async def counted(texts: list[str], asked: Awaitable[Any]) -> int:
    """How many statements that took."""
    # PostgreSQL's driver tells a little later.
    await asyncio.sleep(0)
    del texts[:]
    await asked
    await asyncio.sleep(0)
    return len(texts)


async def per_s(engine: Engine, texts: list[str], *, is_heard: bool) -> float:
    """Each at its own pace. Where any commit is heard of, the worker looks for work after each as well."""
    app = Ficha("memory:")
    word = await counted(texts, engine.call(WORD))
    claim = await counted(texts, engine.call(CLAIM))
    renewal = await counted(texts, engine.call(c.Elect(sweeper.DUTY, "us", sweeper.LEAD_MS)))
    sweep = await counted(texts, engine.sweep())
    # Until there is nothing left to add up, which others' transactions may put off.
    while engine.figures.pause_s <= figures.FOLD_S:
        await engine.figures.fold()
    fold = await counted(texts, engine.figures.fold())
    assert (sweep, claim, fold) == (1, 1, 1)
    look = await counted(texts, engine.clock.is_doubted())
    assert look == isinstance(engine.store, HasOwnClocks)
    heard = claim if is_heard else 0
    return (
        (sweep + look) / app._sweep_s
        + fold / figures.LONGEST_FOLD_S
        + claim / worker.POLL_S
        + (word + heard) / app.heartbeat_s
        + (renewal + heard) / sweeper.RENEW_S
    )


async def test_an_idle_worker_asks_little_of_sqlite(tmp_path: Path) -> None:
    texts: list[str] = []
    store = SqliteStore(tmp_path / "ficha.db")
    async with idle(store) as engine:
        for thread in (store._writer, store._reader, store._journal._mover):
            assert thread is not None
            await thread.call(lambda db: db.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: texts.append(event["sql"])))
        assert await per_s(engine, texts, is_heard=True) < MOST_OF_SQLITE_PER_S
        # It looks once more for what was committed since, and not again until something else is.
        assert await counted(texts, engine.call(WORD)) == 3
        assert await counted(texts, engine.call(CLAIM)) == 1
        assert await counted(texts, engine.call(CLAIM)) == 0


async def test_a_worker_that_found_nothing_finds_what_another_process_brings(tmp_path: Path) -> None:
    path = str(tmp_path / "ficha.db")
    async with opened(path) as ours, opened(path) as theirs:
        for number in range(1, 4):
            for _ in range(3):
                assert await ours.run(c.Claim("w1", ("gpu",), 10)) == [Claimed(())]
            await theirs.run(a_submit(number))
            [claimed] = await ours.run(c.Claim("w1", ("gpu",), 10))
            assert [lease.job.id for lease in claimed.leases] == [a_submit(number).jobs[0].id]


async def test_a_claim_from_a_pool_that_is_not_there_is_refused_every_time(tmp_path: Path) -> None:
    async with opened(str(tmp_path / "ficha.db")) as setup:
        for _ in range(3):
            [refused] = await setup.run(c.Claim("w1", ("gpu", "none"), 10))
            assert isinstance(refused, Refusal)
            assert refused.code == "NOT_FOUND"
        await setup.run(c.DeclarePool("none", None))
        assert await setup.run(c.Claim("w1", ("gpu", "none"), 10)) == [Claimed(())]


@pytest.mark.parametrize("sign", [WORD, c.UseApiKey(COMMITTER)], ids=lambda sign: type(sign).__name__)
async def test_signs_of_life_alone_do_not_keep_the_journal_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: c.Command
) -> None:
    path = str(tmp_path / "ficha.db")
    async with opened(path) as setup:
        monkeypatch.setattr(wal_module, "IDLE_S", 0.0)
        for pages, is_emptied in ((1_000, False), (1, True)):
            monkeypatch.setattr(store_module, "SIGNS_PAGES", pages)
            await setup.run(sign)
            assert await setup.store.committed(COMMITTER, setup.number)
            await moved(setup)  # by now the event loop has seen that time is up
            await moved(setup)
            assert (journal(path).st_size == 0) is is_emptied


async def test_a_worker_keeps_its_leases_without_sweeping_beside_its_application(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ficha.db"
    async with Ficha(url):
        pass
    app = Ficha(url, sweep_s=0.001)
    for sweeps in (True, False):
        async with app.separate_operations(sweeps=sweeps) as operations:
            await asyncio.sleep(0.002)
            asked = asyncio.ensure_future(operations.register_worker(WORD))
            await asyncio.sleep(0)
            assert any(task.get_name() == "ficha sweep" for task in asyncio.all_tasks()) is sweeps
            await asked
