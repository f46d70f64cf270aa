"""The PostgreSQL store when things break: connections, commits, servers, and callers that give up."""

import asyncio
import time
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from ficha.core import commands as c
from ficha.core.needs import Needs
from ficha.core.snapshot import Changes, Snapshot
from ficha.store import base as q
from ficha.store.base import (
    ASKED_MS,
    CommitUnknown,
    Decision,
    DiskFull,
    LockHeld,
    ReadOnly,
    SchemaMismatch,
    StoreError,
    Transient,
    Unavailable,
)
from ficha.store.postgres import PostgresStore
from ficha.store.postgres.errors import after_commit, translated
from ficha.testing import ManualClock
from tests.stores.postgres_setup import connected, jobs, look, opened, prepare, run, submit, until_waiting
from tests.stores.proxy import COMMIT, Cut, proxied
from tests.support.waiting import until

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

MARK = """
INSERT INTO ficha.commits (committer, sequence, at, size, events)
VALUES ($1, $2, now() - $3 * interval '1 second', 0, '[]')
"""


@pytest.mark.parametrize(("cut", "is_kept"), [("before commit", False), ("after commit", True)])
async def test_an_ambiguous_commit_is_told_by_its_marker(migrated_url: str, cut: Cut, is_kept: bool) -> None:
    await ambiguous(migrated_url, cut, is_kept, COMMIT, optimistic=False)


async def ambiguous(url: str, cut: Cut, is_kept: bool, message: bytes, *, optimistic: bool) -> None:
    """Loses the connection around a message that commits."""
    async with proxied(url) as (proxy, proxied_url), opened(proxied_url, optimistic=optimistic) as store:
        await prepare(store)
        committer = str(uuid4())
        await run(store, submit())
        await run(store, submit(), committer=committer, number=1)
        # By now its statement is prepared.
        await run(store, submit())
        proxy.at = message
        proxy.cut = cut
        with pytest.raises(CommitUnknown) as unknown:
            await run(store, submit(), committer=committer, number=2)
        assert unknown.value.attempt is not None
        assert len(unknown.value.attempt.changes.jobs) == 1
        assert proxy.cuts == 1
        assert await store.committed(committer, 1)
        assert await store.committed(committer, 2) is is_kept
        assert len(await jobs(store)) == 3 + is_kept
        await run(store, submit(), committer=committer, number=3)
        assert await store.committed(committer, 3)


async def test_the_question_whether_a_commit_group_was_committed_waits_for_its_end(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        for end, is_kept in (("ROLLBACK", False), ("COMMIT", True)):
            committer = str(uuid4())
            await connection.execute("BEGIN")
            await connection.execute(MARK, committer, 7, 0)
            asking = asyncio.create_task(store.committed(committer, 7))
            await until_waiting(migrated_url)
            assert not asking.done()
            await connection.execute(end)
            assert await asking is is_kept


async def test_a_commit_group_that_changes_nothing_leaves_no_marker(migrated_url: str) -> None:
    async with opened(migrated_url) as store:
        committer = str(uuid4())
        await run(store, c.CancelJob(str(uuid4())), committer=committer, number=1)
        assert not await store.committed(committer, 1)
        async with connected(migrated_url) as connection:
            assert await connection.fetchval("SELECT count(*) FROM ficha.commits") == 0


async def test_whether_a_commit_group_was_committed_is_not_told_once_its_marker_may_be_gone(migrated_url: str) -> None:
    clock = ManualClock(1_700_000_000_000_000)
    async with opened(migrated_url, clock=clock) as store:
        await prepare(store)
        committer = str(uuid4())
        await run(store, submit(), committer=committer, number=1)
        clock.advance(ASKED_MS / 1_000)
        assert await store.committed(committer, 1)
        assert not await store.committed(committer, 2)
        clock.advance(0.000_001)
        assert await store.committed(committer, 1), "what is there is there"
        with pytest.raises(CommitUnknown, match="too long ago"):
            await store.committed(committer, 2)


async def test_old_commits_are_cleared_away_by_the_clock_of_the_database(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_time_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true_time_ns() + 30 * 86_400 * 10**9)
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        for age_s in (90_000, 86_500, 86_000, 10):
            await connection.execute(MARK, str(uuid4()), 1, age_s)
        await store.tidy(86_400_000)
        ages = await connection.fetch("SELECT extract(epoch FROM now() - at)::int FROM ficha.commits ORDER BY number")
        assert [round(age, -1) for (age,) in ages] == [86_000, 10]


async def test_a_deadlock_is_transient(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store, "ana", "bob")
        await connection.execute(
            "SET deadlock_timeout = '1min'; BEGIN; SELECT FROM ficha.accounts WHERE id = 'bob' FOR UPDATE"
        )
        looking = asyncio.create_task(look(store, Needs(accounts={"ana", "bob"})))
        await until_waiting(migrated_url)
        await connection.execute("SELECT FROM ficha.accounts WHERE id = 'ana' FOR UPDATE")
        with pytest.raises(Transient, match="deadlock"):
            await looking
        await connection.execute("ROLLBACK")
        await run(store, submit("ana"))


async def test_after_its_connections_were_ended_a_store_goes_on(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        await asyncio.gather(*(run(store, submit()) for _ in range(3)))
        await connection.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}")
        await until(lambda: connection.fetchval(f"SELECT count(*) = 0 {OTHERS}"))
        # What the connection was told by the database may not have been read yet; then the first use finds out, in a
        # transaction or in the single statement that would also commit.
        failures = 0
        for _ in range(4):
            try:
                await run(store, submit())
            except (Unavailable, CommitUnknown):
                failures += 1
        assert failures <= 1
        assert len(await jobs(store)) == 7 - failures


async def test_a_connection_that_ends_in_the_middle_of_a_commit_group_is_unavailable(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        loop_only: list[Snapshot] = []

        def cutting(snapshot: Snapshot) -> Decision:
            loop_only.append(snapshot)
            for writer in in_use:
                writer.terminate()
            return Changes(accounts=[a for a in snapshot.accounts.values() if a is not None]), []

        in_use: list[Any] = []
        async with store._writers.take() as writer:
            in_use.append(writer)
        with pytest.raises(Unavailable):
            await store.transact(str(uuid4()), 1, Needs(accounts={"ana"}), cutting)
        await run(store, submit())
        assert await connection.fetchval("SELECT count(*) FROM ficha.jobs") == 1


@pytest.mark.parametrize("statement", ["BEGIN", "FOR UPDATE", "clock_timestamp", "INSERT", "COMMIT"])
async def test_a_caller_that_gives_up_leaves_no_transaction_behind(
    migrated_url: str, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await given_up(migrated_url, statement, monkeypatch, optimistic=False)


async def given_up(url: str, statement: str, monkeypatch: pytest.MonkeyPatch, *, optimistic: bool) -> None:
    """Cancels the caller while a statement is on its way."""
    reached = asyncio.Event()

    def slowed(call: Any) -> Any:
        async def slow(self: Any, text: str, *values: Any, **options: Any) -> Any:
            if statement in text and not reached.is_set():
                reached.set()
                # The statement is on its way when the caller gives up.
                await asyncio.gather(call(self, text, *values, **options), asyncio.sleep(60))
            return await call(self, text, *values, **options)

        return slow

    async with (
        opened(url, committers=1, optimistic=optimistic) as store,
        connected(url) as connection,
    ):
        await prepare(store)
        async with store._writers.take() as writer:
            pass
        monkeypatch.setattr(asyncpg.Connection, "execute", slowed(asyncpg.Connection.execute))
        monkeypatch.setattr(asyncpg.Connection, "fetch", slowed(asyncpg.Connection.fetch))
        submitting = asyncio.create_task(run(store, submit()))
        await reached.wait()
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting
        assert writer.is_closed()
        await run(store, submit())
        async with store._writers.take() as writer:
            assert not writer.is_in_transaction()
        if not optimistic and statement != "COMMIT":
            assert await connection.fetchval("SELECT count(*) FROM ficha.jobs") == 1


async def test_a_database_that_is_not_there_is_unavailable_at_once(migrated_url: str) -> None:
    store = PostgresStore(migrated_url.replace("host=", "host=/nowhere"))
    for use in (store.open(), store.version(), store.committed(str(uuid4()), 1), look(store, Needs())):
        with pytest.raises(Unavailable):
            await asyncio.wait_for(use, 5)
    await store.listen(lambda _: None)
    await store.close()
    missing = PostgresStore(migrated_url.replace("/test_", "/no_"))
    with pytest.raises(StoreError, match="does not exist"):
        await missing.open()


async def test_a_read_only_database_is_unavailable_and_can_be_read(postgres_url: str) -> None:
    async with opened(postgres_url) as store, connected(postgres_url) as connection:
        await prepare(store)
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await store.open()
        with pytest.raises(Unavailable, match="read-only"):
            await run(store, submit())
        [_] = await store.read(q.ListAccounts())


async def test_a_server_that_became_read_only_is_left_for_another(postgres_url: str) -> None:
    """Of several hosts in the URL another one may be the primary now."""
    async with opened(postgres_url, committers=1) as store, connected(postgres_url) as connection:
        await prepare(store)
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        async with store._writers.take() as writer:
            writer.terminate()
        with pytest.raises(ReadOnly, match="read-only"):
            await run(store, submit())
        await connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        await run(store, submit())


class ServerDown(asyncpg.DiskFullError):
    severity_en = "PANIC"


def test_an_error_with_which_the_server_goes_down_proves_nothing_about_a_commit() -> None:
    assert type(after_commit(ServerDown("no space left for its log"))) is CommitUnknown
    assert type(translated(ServerDown("no space left for its log"))) is DiskFull


async def test_tables_that_are_gone_are_a_mismatch_of_schemas(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await prepare(store)
        await PostgresStore(postgres_url).migrate(0)
        with pytest.raises(SchemaMismatch, match="migrate up"):
            await store.read(q.ListPools())
        await store.migrate()
        await prepare(store)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (asyncpg.SerializationError("x"), Transient),
        (asyncpg.DeadlockDetectedError("x"), Transient),
        (asyncpg.LockNotAvailableError("x"), LockHeld),
        (asyncpg.QueryCanceledError("x"), Transient),
        (asyncpg.AdminShutdownError("x"), Unavailable),
        (asyncpg.CannotConnectNowError("x"), Unavailable),
        (asyncpg.TooManyConnectionsError("x"), Unavailable),
        (asyncpg.ReadOnlySQLTransactionError("x"), ReadOnly),
        (asyncpg.DiskFullError("x"), DiskFull),
        (asyncpg.IdleInTransactionSessionTimeoutError("x"), Unavailable),
        (asyncpg.InterfaceError("connection is closed"), Unavailable),
        (asyncpg.InternalClientError("another operation is in progress"), Unavailable),
        (ConnectionResetError(), Unavailable),
        (TimeoutError(), Unavailable),
        (asyncpg.UndefinedTableError("x"), SchemaMismatch),
        (asyncpg.CheckViolationError("x"), StoreError),
        (asyncpg.InvalidSQLStatementNameError("x"), StoreError),
        (ValueError("x"), StoreError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_errors_tell_what_to_do(error: Exception, told: type[StoreError]) -> None:
    assert type(translated(error)) is told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionResetError(), CommitUnknown),
        (TimeoutError(), CommitUnknown),
        (asyncpg.AdminShutdownError("x"), CommitUnknown),
        (asyncpg.ConnectionDoesNotExistError("x"), CommitUnknown),
        (asyncpg.SerializationError("x"), Transient),
        (asyncpg.DiskFullError("x"), DiskFull),
        (asyncpg.UniqueViolationError("x"), StoreError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_only_an_answer_to_commit_says_that_nothing_was_kept(error: Exception, told: type[StoreError]) -> None:
    assert type(after_commit(error)) is told
