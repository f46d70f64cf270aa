"""What the tests of the PostgreSQL store share: commit groups decided by the real rules, and a plain connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from uuid import uuid4

import asyncpg

from ficha.core import commands as c
from ficha.core.decide import decide
from ficha.core.needs import Needs, needs
from ficha.core.policy import Plan, Policy
from ficha.core.records import Job
from ficha.core.snapshot import Changes, Snapshot
from ficha.store.base import Decision, ListJobs
from ficha.store.postgres import PostgresStore
from tests.support.new_jobs import new_job

POLICY = Policy(plans={"pro": Plan("pro"), "solo": Plan("solo", max_running=1), "single": Plan("single", max_active=1)})
NUMBERS = count(1)


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresStore]:
    """A store on a migrated database."""
    store = PostgresStore(url, **options)
    await store.migrate()
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        connection.terminate()


async def until_activity(connection: asyncpg.Connection, condition: str) -> None:
    """Until a transaction other than this connection's is as the condition on pg_stat_activity says."""
    text = (
        "SELECT count(*) FROM pg_stat_activity "
        f"WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}"
    )
    while not await connection.fetchval(text):  # noqa: ASYNC110 (the database does not tell by itself)
        await asyncio.sleep(0.005)


async def until_waiting(url: str) -> None:
    """Until some transaction waits for a lock."""
    async with connected(url) as connection:
        await until_activity(connection, "wait_event_type = 'Lock'")


async def run(
    store: PostgresStore, *group: c.Command, committer: str | None = None, number: int | None = None
) -> list[Any]:
    """One commit group of the real rules; its outcomes."""
    committer, number = committer or str(uuid4()), number or next(NUMBERS)
    committed = await store.transact(committer, number, needs(group), lambda snapshot: decide(snapshot, group, POLICY))
    return committed.outcomes


async def look(store: PostgresStore, wanted: Needs) -> Snapshot:
    """What a commit group with these needs would be given."""
    seen: list[Snapshot] = []

    def decided(snapshot: Snapshot) -> Decision:
        seen.append(snapshot)
        return Changes(), []

    await store.transact(str(uuid4()), next(NUMBERS), wanted, decided)
    return seen[-1]


def submit(account: str = "ana", pool: str = "gpu", **options: Any) -> c.Submit:
    job = new_job(str(uuid4()), "upscale", pool, '{"x": 1}', 5, **options)
    return c.Submit(account, (job,), key=job.id)


async def prepare(store: PostgresStore, *accounts: str, slots: int | None = None) -> None:
    """Accounts with credits, and a pool."""
    await run(store, c.DeclarePool("gpu", slots), *(c.OpenAccount(a, "pro", 1000) for a in accounts or ("ana",)))


async def leased(store: PostgresStore) -> tuple[str, int]:
    """A job that a worker holds, and its epoch."""
    [submitted] = await run(store, submit())
    [claimed] = await run(store, c.Claim("w1", ("gpu",), 1))
    assert claimed.leases[0].job.id == submitted.job_id
    return submitted.job_id, claimed.leases[0].epoch


async def jobs(store: PostgresStore) -> list[Job]:
    """All jobs, newest first."""
    return await store.read(ListJobs())


@asynccontextmanager
async def two(url: str, **options: Any) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    """The stores of two processes on one database."""
    async with opened(url, committers=1, **options) as mine, opened(url, committers=1, **options) as other:
        yield mine, other


@asynccontextmanager
async def heard(store: PostgresStore) -> AsyncIterator[list[str]]:
    """The first words of what the store's only writer sends from now on."""
    texts: list[str] = []

    def log(logged: Any) -> None:
        texts.append("guarded" if "guard AS" in logged.query else logged.query.split()[0])

    async with store._writers.take() as connection:
        connection.add_query_logger(log)
    yield texts
    connection.remove_query_logger(log)


async def sent(store: PostgresStore, *group: c.Command) -> tuple[list[Any], list[str]]:
    async with heard(store) as texts:
        outcomes = await run(store, *group)
        await asyncio.sleep(0)  # the driver logs a little later
    return outcomes, texts
