"""Migrations of several steps: indexes that are built while others write, rows that are changed in batches, and runs
that are interrupted, blocked or undone halfway."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from ficha.store.base import SchemaMismatch, StoreError
from ficha.store.migrations import LockWait, half_done, script
from ficha.store.postgres import PostgresStore
from tests.support.processes import ForkedProcess
from tests.upgrades.conftest import Open
from tests.upgrades.later_release import UP, execute, kind_of, number_of, with_steps

pytestmark = pytest.mark.req("B11")

NAMES = [f"name-{number:02}" for number in range(10)]


@pytest.fixture
async def filled(release: Open, url: str) -> str:
    """A database of the present release, with accounts; its address."""
    await release().migrate()
    columns = "plan, opened_at, hour_at, day_at, month_at"
    instant = "0" if url.startswith("sqlite") else "now()"
    numbers = "parked, reserved, balance, hour_submits, day_spent, month_spent, submitted, entries, active, admitted"
    for name in NAMES:
        await execute(
            url,
            f"INSERT INTO accounts (id, {columns}, {numbers}) VALUES "
            f"('{name}', 'pro', {', '.join([instant] * 4)}, {', '.join(['0'] * 10)})",
        )
    return url


async def shouts(url: str) -> int:
    found: int = await execute(url, "SELECT count(*) FROM accounts WHERE shout = upper(id)")
    return found


async def test_every_step_runs_once_and_all_of_it_is_undone(filled: str, release: Open) -> None:
    store = with_steps(release())
    made = store.migrations[-1]
    assert [migration.number for migration in await store.migrate()] == [made.number]
    assert (await shouts(filled), await execute(filled, "SELECT count(*) FROM steps_ran")) == (len(NAMES), 0)
    assert half_done(await store.state()) is None
    await store.migrate(made.number - 1)
    await store.migrate()
    assert await shouts(filled) == len(NAMES)


@pytest.mark.parametrize("goes_on", [True, False], ids=["goes on", "is undone"])
async def test_a_run_that_fails_at_any_step_goes_on_from_there_or_is_undone(
    filled: str, release: Open, goes_on: bool
) -> None:
    last = number_of(release())
    total = len(with_steps(release()).migrations[-1].up)
    for number in range(total):
        broken = with_steps(release())
        made = broken.migrations[-1]
        bad = list(made.up)
        bad[number] = replace(bad[number], text="SELECT nonsense FROM nowhere;")
        broken.migrations = (*broken.migrations[:-1], replace(made, up=tuple(bad)))
        with pytest.raises(StoreError, match="nowhere"):
            await broken.migrate()
        state = await release().state()
        row = half_done(state)
        assert (row.version, row.steps_left) == (last, total - number) if row else number == 0
        assert state.version == last - 1
        older = release()
        await older.open()
        await older.close()
        new = with_steps(release())
        with pytest.raises(SchemaMismatch, match="half done" if row else "run `ficha migrate up`"):
            await new.open()
        if goes_on:
            assert len(await new.migrate()) == 1
            assert await shouts(filled) == len(NAMES)
        await new.migrate(last - 1)
        assert (await new.state()).recorded[-1].version == last - 1


async def test_batches_are_small_and_go_on_where_they_stopped(filled: str, release: Open) -> None:
    """A row that cannot be changed stops the third batch; the first two are kept, and are not looked at again."""
    text = UP[kind_of(release())]
    refusing = text.replace("shout text;", "shout text CHECK (shout <> 'NAME-07');")
    with pytest.raises(StoreError):
        await with_steps(release(), refusing).migrate()
    row = half_done(await release().state())
    assert row is not None
    assert (row.reached, await shouts(filled)) == ("name-05", 6)
    await execute(filled, "UPDATE accounts SET shout = NULL WHERE id < 'name-03'")
    await with_steps(release(), text.replace("upper(id) WHERE", "upper(id) WHERE id <> 'name-07' AND")).migrate()
    assert await shouts(filled) == len(NAMES) - 3 - 1


async def test_batches_whose_process_was_killed_are_gone_on_with(filled: str, release: Open, tmp_path: Path) -> None:
    table = "accounts" if filled.startswith("sqlite") else "ficha.accounts"
    text = f"-- step: batches of 1 by {table} (id)\nUPDATE {table} SET plan = upper(id) WHERE {{batch}};\n"
    async with contextlib.AsyncExitStack() as stack:
        if table == "ficha.accounts":
            # Somebody has a row in use, so that the process is in the middle when it is killed.
            somebody = await asyncpg.connect(filled)
            stack.push_async_callback(somebody.close)
            await somebody.execute("BEGIN; SELECT FROM ficha.accounts WHERE id = 'name-05' FOR UPDATE")
        process = migrating_process(filled, text, tmp_path)

        async def has_begun() -> bool:
            row = (await release().state()).recorded[-1]
            return row.version == number_of(release()) and (table == "accounts" or row.reached == "name-04")

        await until(has_begun)
        process.kill()
        process.wait()
    store = with_steps(release(), text)
    await store.migrate()
    assert await execute(filled, "SELECT count(*) FROM accounts WHERE plan = upper(id)") == len(NAMES)
    assert (await store.state()).version == number_of(release())


async def test_the_printed_sql_does_the_same(filled: str, release: Open) -> None:
    store = with_steps(release())
    last = store.migrations[-1].number
    for part in script(store, last - 1, last).strip().split("\n\n"):
        for text in part.split(";\n") if "outside any transaction" in part else [part]:
            await execute(filled, text)
    assert (await shouts(filled), (await store.state()).version) == (len(NAMES), last)
    assert await store.migrate() == []


# PostgreSQL, with others at work


@pytest.fixture
async def database(postgres_url: str) -> str:
    await PostgresStore(postgres_url).migrate()
    return postgres_url


@pytest.fixture
async def other(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of somebody else."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """What an asynchronous condition gives, as soon as it gives something."""
    while not (found := await condition()):  # noqa: ASYNC110 (the database does not tell by itself)
        await asyncio.sleep(0.01)
    return found


async def test_a_step_that_waits_for_a_lock_lets_others_pass_and_names_the_holder(
    database: str, other: asyncpg.Connection
) -> None:
    store = with_steps(PostgresStore(database))
    told: list[str] = []
    await other.execute("BEGIN; UPDATE ficha.accounts SET plan = plan")
    pid = other.get_server_pid()
    with pytest.raises(StoreError, match=rf"waits for a lock, held by process {pid} .*tried 2 times, 0.05 s each"):
        await store.migrate(tell=told.append, lock_wait=LockWait(0.05, 2, 0.0))
    assert half_done(await store.state()) is None
    migrating = asyncio.create_task(store.migrate(tell=told.append, lock_wait=LockWait(0.05, 10_000, 0.05)))
    await until(lambda: asyncio.sleep(0, len(told) > 3))
    third = await asyncpg.connect(database)
    await third.fetch("SELECT * FROM ficha.accounts")  # it does not wait until the holder's transaction has ended
    await third.close()
    await other.execute("COMMIT")
    assert len(await migrating) == 1


async def test_two_that_migrate_at_once_take_turns(database: str, other: asyncpg.Connection) -> None:
    await other.execute("BEGIN; UPDATE ficha.accounts SET plan = plan")
    waiting: list[str] = []
    told: list[str] = []
    wait = LockWait(0.05, 10_000, 0.01)
    first = asyncio.create_task(with_steps(PostgresStore(database)).migrate(None, waiting.append, wait))
    await until(lambda: asyncio.sleep(0, waiting))
    second = asyncio.create_task(with_steps(PostgresStore(database)).migrate(tell=told.append))
    await until(lambda: asyncio.sleep(0, told))
    await other.execute("COMMIT")
    assert (len(await first), await second) == (1, [])
    assert told == ["another process is migrating this database: waiting for it"]


@pytest.mark.parametrize("goes_up", [True, False], ids=["then up", "then down"])
async def test_a_way_down_that_stopped_halfway_can_be_gone_in_both_directions(database: str, goes_up: bool) -> None:
    store = with_steps(PostgresStore(database))
    made = store.migrations[-1]
    await store.migrate()
    broken = with_steps(PostgresStore(database))
    bad = replace(made.down[1], text="SELECT nonsense FROM nowhere;")
    broken.migrations = (*broken.migrations[:-1], replace(made, down=(made.down[0], bad)))
    with pytest.raises(StoreError, match="nowhere"):
        await broken.migrate(made.number - 1)
    row = half_done(await store.state())
    assert row is not None
    assert row.steps_left == len(made.up)
    if goes_up:
        assert await store.migrate() == [made]
        await store.open()
        await store.close()
    assert await store.migrate(made.number - 1) == [made]
    assert (await store.state()).version == made.number - 1


INDEX = """-- kind: additive
-- step: concurrently
CREATE INDEX CONCURRENTLY accounts_by_plan ON ficha.accounts (plan);
"""
NO_INDEX = "DROP INDEX IF EXISTS ficha.accounts_by_plan;"
VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('ficha.accounts_by_plan')"
BUILDER = "SELECT pid FROM pg_stat_progress_create_index WHERE datname = current_database()"


@pytest.mark.parametrize("builder_dies", [True, False], ids=["the database's process too", "the database goes on"])
async def test_an_index_whose_migration_was_killed_is_there_after_the_next_run(
    database: str, other: asyncpg.Connection, tmp_path: Path, builder_dies: bool
) -> None:
    """Somebody's open transaction keeps the build waiting, halfway; then the process that migrates is killed."""
    third = await asyncpg.connect(database)
    await other.execute("BEGIN; LOCK TABLE ficha.accounts IN ROW EXCLUSIVE MODE")
    process = migrating_process(database, INDEX, tmp_path)
    builder = await until(lambda: third.fetchval(BUILDER))
    await until(lambda: third.fetchval(f"SELECT NOT ({VALID})"))
    process.kill()
    process.wait()
    store = with_steps(PostgresStore(database), INDEX, NO_INDEX)
    assert half_done(await store.state()) is not None
    assert await store.broken_indexes() == [], "somebody is building it"
    told: list[str] = []
    if builder_dies:
        await third.execute("SELECT pg_terminate_backend($1)", builder)
        await until(lambda: third.fetchval(f"SELECT NOT EXISTS ({BUILDER})"))
        asked = ForkedProcess(None, ["migrate", "status", "--database", database], stderr=subprocess.PIPE, text=True)
        said = asked.communicate()[1]
        assert "the index accounts_by_plan is incomplete" in said
        assert "run `ficha migrate up`, which builds it again" in said
        await other.execute("COMMIT")
    migrating = asyncio.create_task(store.migrate(tell=told.append))
    await until(lambda: asyncio.sleep(0, told))
    if not builder_dies:
        await other.execute("COMMIT")
    assert len(await migrating) == 1
    words = "it is dropped and built again" if builder_dies else f"is being built by process {builder}"
    assert words in told[0]
    assert await third.fetchval(VALID) is True
    await third.close()


def migrating_process(url: str, text: str, folder: Path) -> ForkedProcess:
    """A process that migrates with these steps."""
    file = folder / "up.sql"
    file.write_text(text)
    return ForkedProcess("tests.upgrades.migrating_process", [url, str(file)])
