"""What became of the runs of workers, in the databases: the rows of PostgreSQL, and schemas from before the counts."""

import asyncio
from collections import Counter
from pathlib import Path

import asyncpg
import pytest

from ficha.core import commands as c
from ficha.store.base import ListWorkers
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from tests.stores import sqlite_setup
from tests.stores.postgres_setup import connected, leased, opened, prepare, run, submit

ROWS = "SELECT worker, kind, runs, busy_us, xmin::text FROM worker_counts ORDER BY worker, kind"


async def counts(store: PostgresStore | SqliteStore) -> dict[tuple[str, str], int]:
    found = (await store.read(ListWorkers(1))).workers
    return {(one.name, tally.kind): tally.runs for one in found for tally in one.tallies}


async def work(store: PostgresStore, worker: str, jobs: int) -> None:
    """Each job in batches of its own."""
    for _ in range(jobs):
        [claimed] = await run(store, c.Claim(worker, ("gpu",), 1))
        for lease in claimed.leases:
            await run(store, c.Finish(lease.job.id, c.Completed("1"), lease.epoch, account_id="ana"))


@pytest.mark.req("B8")
async def test_batches_add_rows_and_folding_leaves_one_of_each_kind(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        await run(store, *(submit() for _ in range(7)))
        await work(store, "w1", 5)
        await work(store, "w2", 1)
        before = await counts(store)
        assert before == {("w1", "claimed"): 5, ("w1", "completed"): 5, ("w2", "claimed"): 1, ("w2", "completed"): 1}
        rows = await connection.fetch(ROWS)
        assert len(rows) == 12
        await store.tidy()
        folded = await connection.fetch(ROWS)
        assert {(worker, kind): runs for worker, kind, runs, *_ in folded} == before
        assert len(folded) == 4
        assert sum(row["busy_us"] for row in folded) == sum(row["busy_us"] for row in rows)
        await store.tidy()
        assert await connection.fetch(ROWS) == folded, "where there is nothing to fold, nothing is written"
        assert await counts(store) == before


async def test_processes_that_fold_while_others_work_lose_and_double_nothing(migrated_url: str) -> None:
    async with opened(migrated_url) as one, opened(migrated_url) as other, connected(migrated_url) as connection:
        await prepare(one)
        await run(one, *(submit() for _ in range(60)))
        done, folds = asyncio.Event(), 0

        async def fold(store: PostgresStore) -> None:
            nonlocal folds
            last = 0
            while not done.is_set():
                await store.tidy()
                folds += 1
                seen = await counts(store)
                completed = sum(runs for (_, kind), runs in seen.items() if kind == "completed")
                assert completed >= last, "a count went back"
                last = completed

        folding = [asyncio.create_task(fold(store)) for store in (one, one, other, other)]
        await asyncio.gather(*(work(store, f"w{number}", 10) for number, store in enumerate([one, other] * 3)))
        done.set()
        await asyncio.gather(*folding)
        assert folds > 4
        total = Counter[str]()
        for (_, kind), runs in (await counts(one)).items():
            total[kind] += runs
        assert total == {"claimed": 60, "completed": 60}
        await one.tidy()
        rows = await connection.fetch(ROWS)
        assert len(rows) == len({(worker, kind) for worker, kind, *_ in rows}), "all was folded in the end"


async def test_folding_waits_for_nobody(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        await run(store, *(submit() for _ in range(4)))
        await work(store, "w1", 4)
        async with connection.transaction():
            held = await connection.fetch("SELECT FROM worker_counts WHERE kind = 'claimed' FOR UPDATE")
            assert len(held) == 4
            async with asyncio.timeout(5):
                await store.tidy()
            kinds = [kind for _, kind, *_ in await connection.fetch(ROWS)]
            assert Counter(kinds) == {"claimed": 4, "completed": 1}
        await store.tidy()
        assert await counts(store) == {("w1", "claimed"): 4, ("w1", "completed"): 4}


@pytest.mark.req("B8", "B11")
async def test_runs_under_way_when_the_counts_come_are_counted_on_postgresql(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        job_id, epoch = await leased(store)
        await store.migrate(1)
        assert await connection.fetchval("SELECT to_regclass('worker_counts')") is None
    async with opened(migrated_url) as store:
        assert await counts(store) == {("w1", "claimed"): 1}
        await run(store, c.Finish(job_id, c.Completed("1"), epoch))
        assert await counts(store) == {("w1", "claimed"): 1, ("w1", "completed"): 1}


@pytest.mark.req("B8", "B11")
async def test_runs_under_way_when_the_counts_come_are_counted_on_sqlite(tmp_path: Path) -> None:
    path = str(tmp_path / "ficha.db")
    async with sqlite_setup.opened(path) as setup:
        await setup.run(sqlite_setup.a_submit(1), c.Claim("w1", ("gpu",)))
    store = SqliteStore(path)
    await store.migrate(1)
    assert "worker_counts" not in sqlite_setup.schema(path)
    await store.migrate()
    await store.open()
    assert await counts(store) == {("w1", "claimed"): 1}
    await store.close()


@pytest.mark.req("D10")
@pytest.mark.parametrize(
    ("version", "tables"), [(1, ["workers", "worker_counts"]), (2, ["api_keys", "api_key_uses", "audit"])]
)
async def test_where_row_level_security_is_on_the_new_tables_come_with_it(
    migrated_url: str, version: int, tables: list[str]
) -> None:
    store = PostgresStore(migrated_url)

    async def is_on() -> bool:
        async with connected(migrated_url) as connection:
            found = await connection.fetch("SELECT relrowsecurity FROM pg_class WHERE relname = ANY ($1)", tables)
        assert len(found) == len(tables)
        [answer] = {row[0] for row in found}
        return bool(answer)

    await store.migrate()
    assert not await is_on()
    await store.migrate(version)
    await store.row_level_security(True)
    await store.migrate()
    assert await is_on()
    await store.row_level_security(False)
    assert not await is_on()


async def test_a_worker_that_is_seen_often_touches_no_index(migrated_url: str) -> None:
    word = c.RegisterWorker("w1", "host", 1, ("gpu",), 1, "1.0", 1_000)
    async with opened(migrated_url) as store:
        for _ in range(20):
            await run(store, word)
    async with connected(migrated_url) as connection:
        updated: asyncpg.Record | None = None
        while updated is None or updated[0] < 19:
            updated = await connection.fetchrow(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'workers'"
            )
        assert tuple(updated) == (19, 19)
