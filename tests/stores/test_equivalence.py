"""All stores give the same outcomes for the same commands, and hold the same rows afterwards."""

import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings

from ficha.core import commands as c
from ficha.core.needs import Needs
from ficha.store.base import (
    Committed,
    Decide,
    GetDue,
    GetState,
    GetStats,
    GetWaiting,
    ListApiKeys,
    ListAudit,
    ListCommits,
    ListJobs,
    ListPools,
    ListWorkers,
)
from ficha.store.memory import MemoryStore
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from ficha.testing import Driver, ManualClock
from ficha.testing.comparing import comparable
from tests.core.strategies import POLICY, START_AT, Workload, workloads


class Rivals:
    """One driver per store, all on the same clock."""

    def __init__(self, drivers: dict[str, Driver]) -> None:
        self.drivers = drivers
        self.clock = drivers["memory"].clock

    async def run(self, *commands: c.Command) -> None:
        """A commit group, which has the same outcomes everywhere."""
        await self._agree(lambda driver: driver.run(*commands))

    async def compare_due(self) -> None:
        """All name the same as due, in whatever order."""

        async def due(driver: Driver) -> object:
            found = await driver.read(
                GetDue(POLICY.stuck_ms, POLICY.max_age_ms, reservations_kept_ms=POLICY.reservations_kept_ms)
            )
            return found.now, sorted(found.jobs), sorted(found.reservations), sorted(found.keys)

        await self._agree(due)

    async def compare(self) -> None:
        """Each store holds what its commit groups made, and all hold the same."""
        for driver in self.drivers.values():
            await driver.check()
        for query in (
            GetState(texts=True),
            GetWaiting(),
            ListPools(),
            ListWorkers(POLICY.stuck_ms),
            ListJobs(limit=1_000),
            ListJobs(statuses=("queued", "running", "failed"), limit=5),
            ListApiKeys(),
        ):
            await self._agree(lambda driver, query=query: driver.read(query))
        await self._agree(_events)
        await self._agree(_audit)
        await self._agree(_figures)

    async def _agree(self, ask: Callable[[Driver], Awaitable[object]]) -> None:
        answers = {name: comparable(await ask(driver)) for name, driver in self.drivers.items()}
        assert answers["sqlite"] == answers["memory"]
        assert answers["postgres"] == answers["memory"]


async def _events(driver: Driver) -> object:
    """All that was told, in the order of the commits; their numbers are each store's own."""
    return [event for commit in await driver.read(ListCommits(limit=10_000)) for event in commit.events]


async def _audit(driver: Driver) -> object:
    return [found.line for found in await driver.read(ListAudit(limit=10_000))]


async def _figures(driver: Driver) -> object:
    return await driver.read(GetStats(POLICY.stuck_ms))


class TwoProcesses:
    """Two stores on one database that take turns: what one remembers, the other may have changed."""

    def __init__(self, *stores: PostgresStore) -> None:
        self.stores = stores
        self.committers = stores[0].committers
        self.read = stores[0].read
        self.committed = stores[0].committed
        self._turn = 0

    async def transact(self, committer: str, number: int, needs: Needs, decide: Decide) -> Committed:
        self._turn += 1
        return await self.stores[self._turn // 3 % len(self.stores)].transact(committer, number, needs, decide)


@pytest.fixture(autouse=True)
def claims_look_at_whole_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is busy enough, a claim would pass over the head of a queue for a moment, and find a job that
    came back with an older rank a little later than the other stores do."""
    if importlib.util.find_spec("ficha.store.postgres.optimistic"):
        monkeypatch.setattr("ficha.store.postgres.optimistic.scan_start.SLOW_S", float("inf"))


class Arena:
    """Gives rivals that start from nothing, over one database for all examples of a test."""

    def __init__(self, folder: Path, postgres: "TwoProcesses", admin: asyncpg.Connection, clock: ManualClock) -> None:
        self._folder = folder
        self._postgres = postgres
        self._admin = admin
        self._clock = clock
        self._sqlite: SqliteStore | None = None
        self._round = 0

    async def rivals(self) -> Rivals:
        self._clock.now = START_AT
        await self._empty()
        await self.close()
        self._round += 1
        self._sqlite = SqliteStore(self._folder / f"{self._round}.db", clock=self._clock)
        await self._sqlite.migrate()
        await self._sqlite.open()
        stores = {"memory": MemoryStore(clock=self._clock), "sqlite": self._sqlite, "postgres": self._postgres}
        return Rivals({name: Driver(store, self._clock, POLICY) for name, store in stores.items()})

    async def _empty(self) -> None:
        names = await self._admin.fetch(
            "select tablename from pg_tables where schemaname = 'ficha' and tablename <> 'migrations'"
        )
        async with self._admin.transaction():
            # The ledger refuses to forget; a replica's triggers rest.
            await self._admin.execute("set local session_replication_role = replica")
            for (name,) in names:
                await self._admin.execute(f"delete from ficha.{name}")

    async def close(self) -> None:
        if self._sqlite is not None:
            await self._sqlite.close()


@pytest.fixture
async def arena(tmp_path: Path, migrated_url: str) -> AsyncIterator[Arena]:
    clock = ManualClock()
    postgres = TwoProcesses(*(PostgresStore(migrated_url, clock=clock) for _ in range(2)))
    await postgres.stores[0].migrate()
    for store in postgres.stores:
        await store.open()
    admin = await asyncpg.connect(migrated_url)
    arena = Arena(tmp_path, postgres, admin, clock)
    yield arena
    await arena.close()
    await admin.close()
    for store in postgres.stores:
        await store.close()


@pytest.mark.timeout(600)  # a failure is made small before it is reported, which takes its time
# The arena is made once per test and emptied for each example, which is what the health check asks about.
@settings(max_examples=settings.default.max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(workload=workloads(min_steps=8, max_steps=16, prunes=True))
async def test_all_stores_give_the_same_outcomes_and_hold_the_same_rows(arena: Arena, workload: Workload) -> None:
    rivals = await arena.rivals()
    for step, group in workload:
        rivals.clock.now += step
        await rivals.run(*group)
        await rivals.compare_due()
    await rivals.compare()
