"""Where a claim begins to look, once walking over old entries at the head of the queue has become slow."""

from typing import Any

import pytest

from ficha.core import commands as c
from ficha.core.policy import SECOND, rank_of
from ficha.store.postgres import PostgresStore
from ficha.store.postgres.layer import BEYOND, FIRST
from ficha.store.postgres.optimistic import scan_start
from ficha.store.postgres.optimistic.scan_start import SLACK, ScanStarts
from ficha.testing import ManualClock
from tests.stores.postgres_setup import connected, opened, prepare, run, submit

WHOLE = [("gpu", FIRST, BEYOND)]
SOON = 1_900_000_000 * SECOND


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def rank(priority: int, seconds: float = 0.0) -> int:
    return rank_of(priority, SOON + int(seconds * SECOND))


def test_while_looking_is_fast_the_whole_list_is_looked_at() -> None:
    found = ScanStarts(Time())
    for took_s, count in ((0.0, 0), (scan_start.SLOW_S, 0), (scan_start.SLOW_S + 100 * scan_start.SLOW_PER_JOB_S, 100)):
        assert found.stretches("gpu") == WHOLE
        found.looked(WHOLE, [rank(10, n) for n in range(count)], took_s)
    assert found.stretches("gpu") == WHOLE


def test_once_it_is_slow_each_priority_begins_where_the_last_look_found_something() -> None:
    clock = Time()
    found = ScanStarts(clock)
    # One slow look may have waited for somebody's lock: jobs that waited for it too come late, with old ranks.
    for took_s in (0.2, 0.001, 0.2):
        found.looked(WHOLE, [], took_s)
        assert found.stretches("gpu") == WHOLE
    found.looked(WHOLE, [rank(10), rank(10, 1), rank(30, 5), rank(30, 6)], 0.2)
    ten, thirty = ("gpu", FIRST, rank(10) - rank(10) % 2**51), rank(10) - SLACK
    assert found.stretches("gpu") == [
        ten,
        ("gpu", thirty, 30 << 51),
        ("gpu", rank(30, 5) - SLACK, BEYOND),
    ]
    # Other pools are not touched by it, and each look moves the beginnings on.
    assert found.stretches("cpu") == [("cpu", FIRST, BEYOND)]
    found.looked(found.stretches("gpu"), [rank(10, 7)], 0.001)
    assert found.stretches("gpu")[1] == ("gpu", rank(10, 7) - SLACK, 30 << 51)
    # A look that was slow is taken again when ten times as long has passed; if it is fast by then, all is as before.
    clock.now += 1.99
    assert len(found.stretches("gpu")) == 3
    clock.now += 0.02
    assert found.stretches("gpu") == WHOLE
    found.looked(WHOLE, [], 0.001)
    assert found.stretches("gpu") == WHOLE


async def claim(store: PostgresStore, limit: int = 10) -> list[str]:
    [claimed] = await run(store, c.Claim("w1", ("gpu",), limit))
    return [lease.job.id for lease in claimed.leases]


async def submitted(store: PostgresStore, **options: Any) -> str:
    [outcome] = await run(store, submit(**options))
    return str(outcome.job_id)


@pytest.mark.req("A2")
async def test_claims_keep_their_order_and_find_what_came_back(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_start, "SLOW_S", -1.0)
    monkeypatch.setattr(scan_start, "WHOLE_SHARE", 0.000_001)
    clock, time = ManualClock(), Time()
    async with opened(migrated_url, clock=clock) as store:
        store._layer.scans._clock = time
        await prepare(store)
        assert await claim(store) == []
        first = await submitted(store)
        assert await claim(store) == [first]
        clock.advance(60)
        late, urgent, patient = [await submitted(store, priority=offset) for offset in (0, -20, 20)]
        assert len(store._layer.scans.stretches("gpu")) == 2
        assert await claim(store) == [urgent, late, patient]
        assert len(store._layer.scans.stretches("gpu")) == 4
        # The first one comes back, with its old rank: it is found when the whole list is looked at again.
        await run(store, c.Finish(first, c.RetryLater(1), epoch=1))
        clock.advance(60)
        await run(store, c.Recover(first))
        later = await submitted(store)
        assert await claim(store) == [later]
        time.now += 1_000_000.0
        assert await claim(store) == [first]


async def test_entries_that_cannot_be_cleaned_away_are_passed_over(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_start, "SLACK", 0)
    monkeypatch.setattr(scan_start, "WHOLE_SHARE", 0.000_001)
    async with opened(migrated_url, committers=1) as store, connected(migrated_url) as elsewhere:
        await prepare(store)
        await run(store, c.Credit("ana", 100_000, "grant"))
        await elsewhere.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM ficha.jobs")
        # However slow the machine is just now, nothing is passed over yet.
        monkeypatch.setattr(scan_start, "SLOW_S", 1_000_000.0)
        for _ in range(5):
            await run(store, *(submit() for _ in range(190)))
            assert len(await claim(store, 190)) == 190
        visited = []
        for slow_s in (1_000_000.0, -1.0):
            monkeypatch.setattr(scan_start, "SLOW_S", slow_s)
            for _ in range(2):
                await submitted(store)
                assert len(await claim(store)) == 1
            await submitted(store)
            before = await _visited(store)
            assert len(await claim(store)) == 1
            visited.append(await _visited(store) - before)
        assert visited[0] > 900
        assert visited[1] < 100


async def test_figures_taken_of_empty_tables_do_not_make_commit_groups_read_all_of_them(migrated_url: str) -> None:
    """While old versions cannot be cleaned away, a table that is said to be empty has many pages."""
    async with opened(migrated_url, committers=1) as store, connected(migrated_url) as elsewhere:
        await prepare(store)
        await run(store, c.Credit("ana", 100_000, "grant"))
        await elsewhere.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM ficha.jobs")
        for _ in range(5):
            await run(store, *(submit() for _ in range(190)))
            await _finish(store, 190)
        async with connected(migrated_url) as admin:
            await admin.execute("VACUUM (ANALYZE) ficha.ready, ficha.leases, ficha.jobs")
            assert await admin.fetchval("SELECT reltuples FROM pg_class WHERE relname = 'ready'") == 0
        await run(store, *(submit() for _ in range(5)))
        before = {index: await _visited(store, index) for index in ("ready_pkey", "leases_pkey", "jobs_pkey")}
        await _finish(store, 5)
        for index, count in before.items():
            assert await _visited(store, index) - count < 100, index


async def _finish(store: PostgresStore, count: int) -> None:
    [claimed] = await run(store, c.Claim("w1", ("gpu",), count))
    assert len(claimed.leases) == count
    await run(store, *(c.Finish(lease.job.id, c.Completed("{}"), epoch=lease.epoch) for lease in claimed.leases))


async def _visited(store: PostgresStore, index: str = "ready_in_order") -> int:
    """Entries of an index that the store's only writer has read."""
    async with store._writers.take() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        text = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = $1"
        return int(await connection.fetchval(text, index))
