"""What became of the runs of workers, in the databases: the rows of PostgreSQL, and schemas from before the counts."""

import asyncio
from collections import Counter

import asyncpg
import pytest

from ficha.core import commands as c
from ficha.store.base import ListWorkers
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from tests.stores.postgres_setup import connected, opened, prepare, run, submit

ROWS = "SELECT worker, kind, runs, busy_us, xmin::text FROM ficha.worker_counts ORDER BY worker, kind"


async def counts(store: PostgresStore | SqliteStore) -> dict[tuple[str, str], int]:
    found = (await store.read(ListWorkers(1))).workers
    return {(one.name, tally.kind): tally.runs for one in found for tally in one.tallies}


async def work(store: PostgresStore, worker: str, jobs: int) -> None:
    """Each job in commit groups of its own."""
    for _ in range(jobs):
        [claimed] = await run(store, c.Claim(worker, ("gpu",), 1))
        for lease in claimed.leases:
            await run(store, c.Finish(lease.job.id, c.Completed("1"), lease.epoch, account_id="ana"))


@pytest.mark.req("B8")
async def test_commit_groups_add_rows_and_folding_leaves_one_of_each_kind(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        await run(store, *(submit() for _ in range(7)))
        await work(store, "w1", 5)
        await work(store, "w2", 1)
        before = await counts(store)
        assert before == {("w1", "claimed"): 5, ("w1", "completed"): 5, ("w2", "claimed"): 1, ("w2", "completed"): 1}
        rows = await connection.fetch(ROWS)
        assert len(rows) == 12
        await store.tidy(86_400_000)
        folded = await connection.fetch(ROWS)
        assert {(worker, kind): runs for worker, kind, runs, *_ in folded} == before
        assert len(folded) == 4
        assert sum(row["busy_us"] for row in folded) == sum(row["busy_us"] for row in rows)
        await store.tidy(86_400_000)
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
                await store.tidy(86_400_000)
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
        await one.tidy(86_400_000)
        rows = await connection.fetch(ROWS)
        assert len(rows) == len({(worker, kind) for worker, kind, *_ in rows}), "all was folded in the end"


async def test_folding_waits_for_nobody(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        await run(store, *(submit() for _ in range(4)))
        await work(store, "w1", 4)
        async with connection.transaction():
            assert await connection.fetchval("SELECT pg_try_advisory_xact_lock(hashtext('ficha worker counts'))")
            async with asyncio.timeout(5):
                await store.tidy(86_400_000)
            kinds = [kind for _, kind, *_ in await connection.fetch(ROWS)]
            assert Counter(kinds) == {"claimed": 4, "completed": 4}
        await store.tidy(86_400_000)
        assert await counts(store) == {("w1", "claimed"): 4, ("w1", "completed"): 4}


async def test_a_worker_that_is_seen_often_touches_no_index(postgres_url: str) -> None:
    word = c.RegisterWorker("w1", "host", 1, ("gpu",), 1, "1.0", 1_000)
    async with opened(postgres_url) as store:
        for _ in range(20):
            await run(store, word)
    async with connected(postgres_url) as connection:
        updated: asyncpg.Record | None = None
        while updated is None or updated[0] < 19:
            updated = await connection.fetchrow(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'workers'"
            )
        assert tuple(updated) == (19, 19)
