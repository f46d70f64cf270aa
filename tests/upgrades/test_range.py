"""A release works with its own schema and with those that later, additive migrations make of it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from msgspec.structs import replace

from ficha import Ficha
from ficha.store.base import SchemaMismatch
from ficha.store.migrations import load, steps
from ficha.store.postgres import PostgresStore
from ficha.testing import Driver, ManualClock, StoreConformance
from tests.upgrades.conftest import Open
from tests.upgrades.later_release import execute, number_of, with_later

pytestmark = pytest.mark.req("B11")


@pytest.mark.req("B11")
async def test_an_additive_migration_leaves_the_older_release_working(release: Open) -> None:
    old, new = release(), with_later(release())
    last = new.migrations[-1].number
    await new.migrate()
    await old.open()
    await old.close()
    assert (await old.migrate(), await old.version()) == ([], last)
    with pytest.raises(SchemaMismatch, match=rf"migration {last}, .* with the release that made it"):
        await old.migrate(0)
    assert [m.number for m in await new.migrate(old.migrations[-1].number)] == [last]
    assert await old.version() == old.migrations[-1].number


async def test_a_breaking_migration_refuses_the_older_release_with_the_order_of_steps(release: Open) -> None:
    old, new = release(), with_later(release(), "breaking")
    await new.migrate()
    await new.open()
    await new.close()
    steps = "stop all processes of the old release, run `ficha migrate up` with the new one, start its processes"
    for refused in (old.open, old.migrate):
        with pytest.raises(SchemaMismatch, match=rf"knows versions up to {old.migrations[-1].number}.*{steps}"):
            await refused()
    await new.migrate(old.migrations[-1].number)
    await old.open()
    await old.close()


async def test_a_newer_release_refuses_the_older_schema(release: Open) -> None:
    old, new = release(), with_later(release())
    await old.migrate()
    with pytest.raises(SchemaMismatch, match=rf"works with version {number_of(old)} and newer: run `ficha migrate up`"):
        await new.open()


async def test_a_breaking_migration_counts_from_its_first_step_on_and_an_additive_one_when_it_is_complete(
    release: Open, url: str
) -> None:
    old, new = release(), with_later(release())
    await new.migrate()
    last = new.migrations[-1].number
    await execute(url, f"UPDATE migrations SET steps_left = 1 WHERE version = {last}")
    await old.open()
    await old.close()
    with pytest.raises(SchemaMismatch, match=rf"migration {last} is half done.*run `ficha migrate up`"):
        await new.open()
    await execute(url, f"UPDATE migrations SET works_from = {last} WHERE version = {last}")
    with pytest.raises(SchemaMismatch, match="stop all processes of the old release"):
        await old.open()


async def test_a_database_of_the_time_when_only_numbers_were_recorded_is_completed(release: Open, url: str) -> None:
    store = release()
    await store.migrate()
    for column in ("name", "works_from", "steps_left", "reached"):
        await execute(url, f"ALTER TABLE migrations DROP COLUMN {column}")
    with pytest.raises(SchemaMismatch, match=r"run `ficha migrate up`|which `ficha migrate up` would make"):
        await store.open()
    assert await store.migrate() == []
    await store.open()
    await store.close()


async def test_a_migration_that_is_numbered_between_others_is_made_up_for(release: Open) -> None:
    store = with_later(release())
    *others, late = store.migrations
    after = replace(late, number=late.number + 1, name="after", up=steps("SELECT 1;"), down=steps("SELECT 1;"))
    store.migrations = (*others, after)
    await store.migrate()
    store.migrations = (*others, late, after)
    with pytest.raises(SchemaMismatch, match="run `ficha migrate up`"):
        await store.open()
    assert await store.migrate() == [late]
    await store.open()
    await store.close()


def test_every_migration_says_of_what_kind_it_is() -> None:
    for package in ("ficha.store.sqlite", "ficha.store.postgres"):
        first, *others = load(package)
        assert (first.kind, first.works_from) == ("breaking", 1)
        for migration in others:
            assert migration.works_from <= migration.number
            assert (migration.kind == "breaking") == (migration.works_from == migration.number)
    assert [(m.number, m.name, m.kind) for m in load("ficha.store.sqlite")] == [
        (m.number, m.name, m.kind) for m in load("ficha.store.postgres")
    ]


@pytest.fixture
async def app(release: Open) -> AsyncIterator[Ficha]:
    """An application of the older release, open, with jobs behind it, so that its statements are prepared."""
    await release().migrate()
    app = Ficha(store=release(), sweep_by_itself=False)
    app.tool(name="draw", cost=5)(lambda job: None)
    async with app:
        await app.open_account("ana", credits=100)
        for number in range(2):
            await live(app, f"first-{number}")
        yield app


async def live(app: Ficha, key: str) -> None:
    """A job's life: asked for, run and done."""
    await app.submit("draw", account="ana", idempotency_key=key)
    [lease] = await app.claim("default", worker="w")
    await app.checkpoint(lease, "half", progress=50)
    await app.finish(lease, {"ok": True})


async def test_columns_that_come_and_go_do_not_disturb_an_older_release_at_work(app: Ficha, release: Open) -> None:
    new = with_later(release())
    for number, target in enumerate((number_of(release()), number_of(release()) - 1, None)):
        await app.submit("draw", account="ana", idempotency_key=f"between-{number}")
        await new.migrate(target)
        [lease] = await app.claim("default", worker="w")
        await app.finish(lease)
        await live(app, f"then-{number}")
        await app.sweep()
        assert await app.verify() == []
    assert (await app.account("ana")).balance == 100 - 8 * 5
    assert len((await app.jobs(status="completed")).items) == 8


async def test_what_a_newer_release_wrote_stays_when_an_older_one_writes_the_same_row(
    app: Ficha, release: Open, url: str
) -> None:
    await with_later(release()).migrate()
    await app.submit("draw", account="ana")
    names = ("accounts", "pools", "jobs", "entries", "keys")
    before = {name: await execute(url, f"SELECT count(*) FROM {name}") for name in names}
    for name in names:
        if name != "entries":
            await execute(url, f"UPDATE {name} SET added_later = 'kept'")
    [lease] = await app.claim("default", worker="w")
    await app.finish(lease)
    await app.resize_pool("default", 3)
    await live(app, "another")
    for name in names:
        kept = await execute(url, f"SELECT count(*) FROM {name} WHERE added_later = 'kept'")
        assert kept == (0 if name == "entries" else before[name]), name


async def test_a_callers_transaction_goes_on_when_columns_were_added(
    postgres_url: str,
) -> None:
    """A process that only calls within its callers' transactions makes no connection of its own, which would tell."""
    store = PostgresStore(postgres_url)
    await store.migrate()
    app = Ficha(store=store, sweep_by_itself=False)
    app.tool(name="draw", cost=5)(lambda job: None)
    async with app:
        await app.open_account("ana", credits=100)
        connection = await asyncpg.connect(postgres_url)
        try:
            for target in (number_of(store), number_of(store) - 1):
                await with_later(PostgresStore(postgres_url)).migrate(target)
                async with connection.transaction():
                    await app.submit("draw", account="ana", connection=connection)
        finally:
            await connection.close()
        assert (await app.account("ana")).balance == 90
        assert await app.verify() == []


# The conformance suite on the later schema: a few lives every day, all of it before a release.


async def _driven(store_of_release: Open) -> AsyncIterator[Driver]:
    clock = ManualClock()
    await with_later(store_of_release()).migrate()
    store = store_of_release(clock=clock)
    await store.open()
    yield Driver(store, clock)
    await store.close()


class TestSomeLives:
    @pytest.fixture
    async def driver(self, release: Open) -> AsyncIterator[Driver]:
        async for driver in _driven(release):
            yield driver


for _test in (
    StoreConformance.test_a_job_that_moves_often_reads_back_the_same_after_each_move,
    StoreConformance.test_refunds_come_once_however_often_an_end_is_told,
    StoreConformance.test_of_equal_contents_one_is_computed_and_answers_the_others,
):
    setattr(TestSomeLives, _test.__name__, _test)


@pytest.mark.long
class TestAllLives(StoreConformance):
    @pytest.fixture
    async def driver(self, release: Open) -> AsyncIterator[Driver]:
        async for driver in _driven(release):
            yield driver
