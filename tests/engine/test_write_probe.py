"""The trial of writing: what it writes, how often, and what it finds on a database that takes no submits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import apsw
import asyncpg
import pytest

from ficha.core.commands import Elect
from ficha.core.records import Leader
from ficha.engine import write_probe
from ficha.engine.engine import Engine
from ficha.engine.write_probe import DUTY, EVERY_S, NotInTime, WriteProbe
from ficha.store.base import DiskFull, ReadOnly, SchemaMismatch, Store
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from tests.engine.engine_setup import POLICY, QUICK, StoreSetup
from tests.engine.instrumented_store import InstrumentedStore
from tests.support.postgres import new_database
from tests.support.waiting import until


async def written(setup: StoreSetup) -> Leader:
    return (await setup.state()).of(Leader)[DUTY]


async def test_all_processes_of_a_database_together_write_once_in_a_while(setup: StoreSetup) -> None:
    one, other = WriteProbe(await setup.engine()), WriteProbe(await setup.engine())
    for first, second in ((one, other), (other, one)):
        assert await first.problem() is None
        row = await written(setup)
        assert await second.problem() is None
        assert await written(setup) == row
        setup.clock.advance(EVERY_S)


async def test_a_call_that_was_refused_counts_until_another_is_committed(memory: StoreSetup) -> None:
    store = InstrumentedStore(memory.store)
    engine = await memory.engine(store)
    probe = WriteProbe(engine)
    full = DiskFull("the disk is full")
    engine._troubled(full)
    assert await probe.problem() is full
    await engine.call(Elect("a duty", "me", 1_000))
    assert await probe.problem() is None


async def test_what_was_refused_long_ago_counts_no_more(memory: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await memory.engine()
    engine._troubled(DiskFull("the disk is full"))
    monkeypatch.setattr(write_probe, "FRESH_S", 0.0)
    assert await WriteProbe(engine).problem() is None


# Databases of one's own, to be broken


class Own:
    """An engine on a database, whose schema and settings the test may change."""

    def __init__(self, url: str, store: Store, engine: Engine) -> None:
        self.url = url
        self.store = store
        self.probe = WriteProbe(engine)


@pytest.fixture(params=["sqlite", "postgresql"])
async def own(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Own]:
    async with AsyncExitStack() as stack:
        url = str(tmp_path / "ficha.db")
        store: SqliteStore | PostgresStore = SqliteStore(url)
        if request.param == "postgresql":
            url = await stack.enter_async_context(new_database(request.getfixturevalue("postgres_server")))
            store = PostgresStore(url)
        await store.migrate()
        await store.open()
        stack.push_async_callback(store.close)
        engine = Engine(store, POLICY, QUICK, sweep_interval_s=float("inf"))
        await engine.start(sweep=False)
        stack.push_async_callback(engine.stop, 0.0)
        yield Own(url, store, engine)


async def test_tables_that_are_gone_are_found(own: Own) -> None:
    migrator = PostgresStore(own.url) if own.url.startswith("postgresql") else SqliteStore(own.url)
    newest = migrator.migrations[-1].number
    assert await own.probe.problem() is None
    await migrator.migrate(newest - 1)
    assert isinstance(await own.probe.problem(), SchemaMismatch)
    await migrator.migrate()
    assert await own.probe.problem() is None


async def test_a_lock_that_is_not_released_is_found_in_time(own: Own) -> None:
    assert await own.probe.problem() is None
    if own.url.startswith("postgresql"):
        connection = await asyncpg.connect(own.url)
        await connection.execute("BEGIN; SELECT FROM ficha.leaders FOR UPDATE")
    else:
        db = apsw.Connection(own.url)
        db.execute("BEGIN IMMEDIATE")
    assert isinstance(await own.probe.problem(), NotInTime)
    if own.url.startswith("postgresql"):
        await connection.close()
    else:
        db.close(True)
    await until(lambda: _is_well(own))


async def _is_well(own: Own) -> bool:
    return await own.probe.problem() is None


@pytest.mark.parametrize("own", ["postgresql"], indirect=True)
async def test_a_read_only_database_is_found(own: Own) -> None:
    connection = await asyncpg.connect(own.url)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    # What was told to the connections before they ended is heard with their first use.
    await until(lambda: _is(own, ReadOnly))
    await connection.execute(
        f"SET default_transaction_read_only = off; ALTER DATABASE {name} RESET default_transaction_read_only"
    )
    await connection.close()
    await until(lambda: _is_well(own))


async def _is(own: Own, kind: type[Exception]) -> bool:
    return isinstance(await own.probe.problem(), kind)
