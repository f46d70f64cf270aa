"""The PostgreSQL schema: migrations, storage settings, statements that fit it, and plans."""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from ficha.core import commands as c
from ficha.core.needs import needs
from ficha.store import base as q
from ficha.store.base import SchemaMismatch, StoreError
from ficha.store.postgres import PostgresStore, load_statements, reads, write
from ficha.store.postgres.connections import BEGIN
from ficha.store.postgres.dialect import Layout
from ficha.store.postgres.keyed_rows import LOCK_KEYED
from ficha.store.questions import QUESTIONS as SHARED_QUESTIONS
from tests.stores.command_samples import searches
from tests.stores.postgres_setup import connected, leased, opened, prepare, run, submit

OBJECTS = """
    SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('ficha')
    UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace('ficha')
"""


async def objects(url: str) -> set[str]:
    async with connected(url) as connection:
        return {name for (name,) in await connection.fetch(OBJECTS)}


@pytest.mark.req("B11")
async def test_down_undoes_all_that_up_made(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    assert await store.version() == 0
    numbers = [m.number for m in store.migrations]
    assert [m.number for m in await store.migrate()] == numbers
    made = await objects(postgres_url)
    assert await store.version() == numbers[-1]
    assert await store.migrate() == []
    assert [m.number for m in await store.migrate(0)] == numbers[::-1]
    assert await objects(postgres_url) == {"migrations", "migrations_pkey"}
    await store.migrate()
    assert await objects(postgres_url) == made


async def test_several_processes_may_migrate_at_once(postgres_url: str) -> None:
    done = await asyncio.gather(*(PostgresStore(postgres_url).migrate() for _ in range(5)))
    assert sum(map(len, done)) == len(PostgresStore(postgres_url).migrations)


async def test_an_empty_a_newer_and_an_unknown_schema_are_refused(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    with pytest.raises(SchemaMismatch, match=r"version 0, .* version \d+ and newer: run `ficha migrate up`"):
        await store.open()
    await store.migrate()
    async with connected(postgres_url) as connection:
        await connection.execute("INSERT INTO ficha.migrations (version, works_from) VALUES (777, 777)")
    for refused in (store.open, store.migrate):
        with pytest.raises(SchemaMismatch, match=r"version 777, .* this release of ficha knows versions up to \d+"):
            await refused()
    with pytest.raises(StoreError, match="no migration 888"):
        await store.migrate(888)
    await store.close()


async def test_hot_tables_are_vacuumed_early_and_leave_room_on_their_pages(postgres_url: str) -> None:
    await PostgresStore(postgres_url).migrate()
    async with connected(postgres_url) as connection:
        rows = await connection.fetch("SELECT relname, reloptions FROM pg_class WHERE reloptions IS NOT NULL")
    found = {name: options for name, options in rows}
    for table in ("ready", "parked", "leases", "accounts", "worker_counts"):
        assert {"autovacuum_vacuum_scale_factor=0", "autovacuum_vacuum_cost_delay=0"} <= set(found[table])
    for table in ("leases", "accounts", "jobs"):
        assert any(option.startswith("fillfactor=") for option in found[table])


async def test_a_heartbeat_touches_no_index(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await prepare(store)
        job_id, epoch = await leased(store)
        for _ in range(20):
            await run(store, c.Heartbeat(job_id, epoch))
    async with connected(postgres_url) as connection:
        counts: Any = None
        while counts is None or counts[0] < 20:
            counts = await connection.fetchrow(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'leases'"
            )
        assert tuple(counts) == (20, 20)


def statements() -> Iterator[str]:
    """Every text that is not put together from a question's conditions; those are asked below."""
    for order in ((*load_statements.LOCKS, *LOCK_KEYED.values()), load_statements.READS):
        yield load_statements.statement(order)
        yield load_statements.statement(order, locks=False)
        # A part that reads what another one found cannot stand alone.
        yield from (load_statements.statement((part,)) for part in order)
    for with_hints in (True, False):
        yield write.statement(write.PARTS, with_hints)
    yield from (write.statement((part,), False) for part in write.PARTS)
    starts = ("SELECT", "WITH", "--")
    for name, text in vars(reads).items():
        if name[0] != "_" and isinstance(text, str) and text.lstrip().startswith(starts):
            yield text


QUESTIONS: list[q.Query[Any]] = [
    q.GetJobs((str(uuid4()), "no uuid")),
    q.GetParts(str(uuid4())),
    q.GetParts("no uuid"),
    q.ListJobs(),
    q.ListJobs("a", ("queued", "running"), "t", "p", str(uuid4()), "s", True, 1, str(uuid4()), 3),
    q.ListJobs(statuses=("starting",)),
    q.ListJobs(statuses=("completed", "queued")),
    q.GetAccount("a"),
    q.ListAccounts("a"),
    q.ListEntries("a", before_number=3),
    q.GetHistory(str(uuid4())),
    q.GetHistory("no uuid", 3),
    q.ListAccepted("ref"),
    q.ListLibrary("a", "t", 1, 2, "x", str(uuid4())),
    q.ListCommits(),
    q.ListCommits(3, 7, "a"),
    q.GetFirstSearched(),
    q.GetHorizon(),
    q.ListSteps("no uuid"),
    q.ListReservations("a", str(uuid4())),
    q.ListKeys("a", ("a", "k", "grant")),
    q.GetBatch(str(uuid4())),
    q.ListPools(),
    q.GetQueueDepth("gpu", 3),
    q.ListWorkers(1),
    q.ListWorkers(1, "w", 3),
    q.GetWaiting(),
    q.GetDue(1, 1),
    q.GetFiles((str(uuid4()), "no uuid")),
    q.ListFiles("a", "result", str(uuid4())),
    q.ListLinkedFiles("job", (str(uuid4()),)),
    q.ListLinkedFiles("reservation", (str(uuid4()),)),
    q.ListDueFiles(),
    q.GetWebhookEndpoints(("a", "")),
    q.ListDeliveries(),
    q.ListDeliveries("a", str(uuid4()), str(uuid4()), str(uuid4()), "pending", "no uuid", 3),
    q.ListDueDeliveries(),
    q.ListDueDeliveries(("a", ""), (str(uuid4()), "no uuid"), 3),
    q.ListOldDeliveries(1),
    q.GetFileUsage("a"),
    q.GetPageSessions("a"),
    q.ListBulkActs(),
    q.ListSchedules(),
    q.ListBrakes(),
    q.GetParts(str(uuid4())),
    q.CountCheckpoints(str(uuid4())),
    q.CountReservations(1, "a"),
    *(q.ListReservations("a", None, 3, state, 1) for state in ("active", "expired", "released")),
    q.ListBulkActs(str(uuid4()), "no uuid", 3),
    q.ListDueBulkActs(3),
    q.ListSessionJobs("a", "s", 3),
    q.GetRetention(3),
    q.ListOldJobs(),
    q.ListOldJobs(str(uuid4()), str(uuid4()), (str(uuid4()),), "a", 3),
    q.ListFuller((str(uuid4()),), (str(uuid4()),)),
    q.ListRowsLeft("a", 7, 3),
    q.GetStats(1),
    q.GetState("a", 3, True),
    q.GetApiKey("digest"),
    q.GetApiKey(key_id=str(uuid4())),
    q.GetRevokedApiKeys((str(uuid4()), str(uuid4()))),
    q.ListApiKeys(),
    q.ListApiKeys(str(uuid4()), 3),
    q.ListHooks(),
    q.ListDeclaredHooks(),
    q.CountHooks(3),
    q.ListJobEvents(str(uuid4()), "callback"),
    q.ListPolls(("a", "b"), 3),
    q.ListProviders(3),
    q.GetMargins(0, 7, 3),
    q.ListFigures(1, 9, 3),
    q.ListFigures(among=(1, 2)),
    q.GetFigurePoint(),
    q.ListRollups("minute", 7),
    q.ListOldRollups("hour", 7, 3),
    q.GetQueueCounts(1, (3,), 7),
    q.GetAlertCounts(1, 2, 3),
    q.GetBacklog(3),
    q.ListPoolTimes(),
    q.GetTotal(),
    q.ListWorkersSeen(7, 3),
    q.ListSuspects(("gpu", "cpu"), 3),
    q.GetCompany("w1"),
    q.ListHooks(("a", "b"), True, 3),
    q.ListAudit(),
    q.ListAudit(7, 3),
    q.ListAudit(7, 3, "account a", "boss"),
    q.ListAudit(actor="boss"),
    q.ListAccounts("a", 3, "a"),
    *(q.SearchJobs(match, 7, str(uuid4()), 3, 5) for match in searches().values()),
    q.SearchJobs(q.JobMatch(batches=("no uuid",), ids=("no uuid",), since_id="no uuid")),
    q.CountJobs(q.SearchJobs(q.JobMatch())),
    q.SumDeadLetters(3),
    q.ListBatches(),
    q.ListBatches("a", str(uuid4()), 3, 7),
    q.ListRunEvents("no uuid"),
    q.ListJobEntries(str(uuid4())),
    q.GetSnapshot(needs([submit(), c.Claim("w1", ("gpu",)), c.RevokeApiKey("no uuid")])),
]


@pytest.fixture
def asked_types(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The types that the driver asked the database about: those of a statement's values that it does not know."""
    asked: list[int] = []
    introspect = asyncpg.Connection._introspect_types

    async def noted(connection: asyncpg.Connection, types: set[int], *more: Any) -> Any:
        asked.extend(types)
        return await introspect(connection, types, *more)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", noted)
    return asked


async def test_every_statement_fits_the_schema(postgres_url: str, asked_types: list[int]) -> None:
    async with opened(postgres_url) as store:
        async with connected(postgres_url) as connection:
            for text in statements():
                await connection.prepare(text)
        assert {type(question) for question in QUESTIONS} == {*SHARED_QUESTIONS, *reads._OWN}
        for question in QUESTIONS:
            await store.read(question)
    # To ask takes two round trips and some milliseconds on each connection.
    assert asked_types == []
    async with connected(postgres_url) as connection:
        [bigints] = await connection.fetchrow("SELECT 'bigint[]'::regtype::oid")
        await connection.prepare("SELECT $1::bigint[]")
    assert asked_types == [bigints]


async def test_the_tables_have_exactly_the_columns_that_are_written(migrated_url: str) -> None:
    own = {"steps": {"number"}, "commits": {"number"}, "audit": {"number"}}
    written: dict[str, set[str]] = {}
    for part in write.PARTS:
        written.setdefault(part.table.name, set()).update(part.table.names)
    layout = Layout(part.table for part in write.PARTS)
    async with connected(migrated_url) as connection:
        await layout.read(connection)
    for part in write.PARTS:
        name = part.table.name
        assert set(layout.names(part.table)) == written[name] | own.get(name, set()), name


async def plan_of(connection: asyncpg.Connection, text: str, *values: object) -> str:
    return "\n".join(line for (line,) in await connection.fetch(f"EXPLAIN {text}", *values))


async def test_no_commit_group_ever_reads_a_whole_table(postgres_url: str) -> None:
    # Plans that are made on empty tables are kept, so they must be right for full ones. What the commit groups of real
    # commands cost on full ones is in test_postgres_plans.py; here are all the parts there are.
    await PostgresStore(postgres_url).migrate()
    async with connected(postgres_url) as connection:
        await connection.execute(BEGIN)
        # Only the repair of an account counts rows, and the hot tables have no index by account.
        reads = tuple(part for part in load_statements.READS if part is not load_statements.ROWS_OF)
        loads = map(load_statements.statement, ((*load_statements.LOCKS, *LOCK_KEYED.values()), reads))
        nothing = {"text": "{}", "int8": 0, "uuid": str(uuid4())}
        for text in (*loads, write.statement(write.PARTS, False)):
            parameters = (await connection.prepare(text)).get_parameters()
            plan = await plan_of(connection, text, *(nothing.get(one.name, []) for one in parameters))
            assert "Seq Scan" not in plan


@pytest.mark.parametrize(
    "change",
    [
        *("UPDATE ficha.entries SET amount = 1", "DELETE FROM ficha.entries", "TRUNCATE ficha.entries"),
        *(
            f"UPDATE ficha.audit SET {one}"
            for one in ("actor = ''", "details = '{}'", "words = '{}'", "account_id = ''")
        ),
        *("DELETE FROM ficha.audit", "TRUNCATE ficha.audit"),
    ],
)
async def test_entries_and_audit_lines_cannot_be_changed(postgres_url: str, change: str) -> None:
    async with opened(postgres_url) as store:
        await prepare(store)
        await run(store, c.ActingAs("boss", c.Credit("ana", 1, "grant")))
        async with connected(postgres_url) as connection:
            with pytest.raises(asyncpg.RestrictViolationError, match="immutable"):
                await connection.execute(change)


async def test_a_second_refund_is_impossible(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await prepare(store)
        job_id, _ = await leased(store)
        await run(store, c.CancelJob(job_id))
        async with connected(postgres_url) as connection:
            with pytest.raises(asyncpg.UniqueViolationError, match="entries_once_per_job"):
                await connection.execute(
                    "INSERT INTO ficha.entries SELECT account_id, number + 1, kind, amount, balance_after, at, job_id "
                    "FROM ficha.entries WHERE kind = 'refund'"
                )


async def test_a_balance_below_zero_is_impossible(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await prepare(store)
        async with connected(postgres_url) as connection:
            with pytest.raises(asyncpg.CheckViolationError):
                await connection.execute("UPDATE ficha.accounts SET balance = -1")


async def test_the_view_shows_a_job_wherever_it_is(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await prepare(store)
        held, epoch = await leased(store)
        await run(store, submit(), submit())
        await run(store, c.Finish(held, c.AcceptedByProvider("ref-1"), epoch))
        await run(store, c.Claim("w1", ("gpu",), 1))
        async with connected(postgres_url) as connection:
            found = await connection.fetch("SELECT place, status, epoch FROM ficha.job_states ORDER BY place")
    assert [tuple(row) for row in found] == [
        ("awaiting", "running", 1),
        ("leased", "starting", 1),
        ("ready", "queued", 0),
    ]
