"""All that Ficha has in PostgreSQL is in one schema, which every statement names: no other table or path matters."""

import asyncio
from typing import Any

import asyncpg
import pytest

from ficha import Ficha
from ficha.core import commands as c
from ficha.store.base import ListEntries, StoreError
from ficha.store.connect import store_for
from ficha.store.migrations import script
from ficha.store.postgres import PostgresStore
from ficha.store.schema_name import RESERVED, in_schema, schema_problem
from tests.stores.postgres_setup import connected, jobs, leased, opened, prepare, run, submit
from tests.stores.test_postgres_schema import QUESTIONS
from tests.support.waiting import until

HOSTILE = """
    CREATE TABLE accounts (id serial, email text);
    CREATE TABLE jobs (id int, title text);
    CREATE TABLE commits (sha text);
    CREATE TABLE schema_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean);
    INSERT INTO schema_migrations VALUES (20260101000000, false);
    CREATE TABLE migrations (id serial, migration text);
    CREATE TYPE ready AS ENUM ('yes', 'no');
"""
"""A product's own tables, with Rails', golang-migrate's and Laravel's tables of migrations among them."""
MADE_BY = """
    SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname !~ '^(pg_|information_schema)'
    UNION ALL
    SELECT n.nspname || '.' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname !~ '^(pg_|information_schema)'
"""


async def everything(url: str) -> set[str]:
    async with connected(url) as connection:
        return {name for (name,) in await connection.fetch(MADE_BY)}


async def live(store: PostgresStore) -> None:
    """A little of everything: all ways to write, and every question."""
    await prepare(store)
    for _ in range(2):
        job_id, epoch = await leased(store)
        await run(store, c.SaveCheckpoint(job_id, epoch, "here"), c.SaveStep(job_id, epoch, "step", "1"))
        await run(store, c.Heartbeat(job_id, epoch))
        await run(store, c.Finish(job_id, c.Completed("{}"), epoch))
    assert await store.committed("00000000-0000-0000-0000-000000000000", 1) is False
    for question in QUESTIONS:
        await store.read(question)
    await store.tidy(1)


@pytest.mark.parametrize("path", ["public", "", "nowhere", "public, ficha"])
@pytest.mark.parametrize("optimistic", [True, False])
async def test_no_search_path_and_no_table_of_others_disturbs(postgres_url: str, path: str, optimistic: bool) -> None:
    async with connected(postgres_url) as connection:
        await connection.execute(HOSTILE)
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET search_path = {path or repr('')}")
        theirs = await everything(postgres_url)
        store = PostgresStore(postgres_url)
        assert await store.version() == 0
        assert await store.migrate() == [*store.migrations]
        async with opened(postgres_url, optimistic=optimistic, committers=1) as store:
            await live(store)
        assert {one.split(".")[0] for one in await everything(postgres_url) - theirs} == {"ficha"}
        rows = await connection.fetch("SELECT version FROM public.schema_migrations")
        assert [version for (version,) in rows] == [20260101000000]
        await store.migrate(0)
        assert await everything(postgres_url) - theirs == {"ficha.migrations", "ficha.migrations_pkey"}


async def test_a_transaction_of_the_callers_own_needs_no_path_either(postgres_url: str) -> None:
    async with connected(postgres_url) as connection:
        await connection.execute(HOSTILE)
    for schema in ("ficha", "queue"):
        app = Ficha(postgres_url, schema=schema)
        app.tool(name="draw", cost=5)(lambda job: None)
        store: Any = store_for(postgres_url, schema)
        await store.migrate()
        async with app:
            await app.open_account("ana", credits=100)
            async with connected(postgres_url) as connection, connection.transaction():
                await app.submit("draw", account="ana", connection=connection)
            assert (await app.account("ana")).balance == 95
            assert await app.verify() == []


async def test_two_schemas_in_one_database_know_nothing_of_each_other(postgres_url: str) -> None:
    async with opened(postgres_url) as one, opened(postgres_url, schema="queue") as other:
        await live(one)
        await live(other)
        for store in (one, other):
            assert len(await jobs(store)) == 2
            assert [entry.number for entry in await store.read(ListEntries("ana"))] == [3, 2, 1]
        await run(one, submit())
        assert (len(await jobs(one)), len(await jobs(other))) == (3, 2)
        await other.close()
        await other.migrate(0)
        assert (await one.version(), await other.version()) == (one.migrations[-1].number, 0)
        assert len(await jobs(one)) == 3


@pytest.mark.parametrize("optimistic", [True, False])
async def test_a_hint_is_heard_in_its_own_schema_only(postgres_url: str, optimistic: bool) -> None:
    heard: dict[str, list[str]] = {"ficha": [], "queue": []}
    async with (
        opened(postgres_url, optimistic=optimistic) as speaker,
        opened(postgres_url, schema="queue", optimistic=optimistic) as other_speaker,
        opened(postgres_url) as one,
        opened(postgres_url, schema="queue") as other,
    ):
        for store in (one, other):
            await store.listen(heard[store.schema].append)
        await speaker.notify(["to ficha"])
        await other_speaker.notify(["to queue"])
        await until(lambda: all(heard.values()))
    assert heard == {"ficha": ["to ficha"], "queue": ["to queue"]}


async def test_two_schemas_do_not_wait_for_each_others_locks(postgres_url: str) -> None:
    """API keys are changed under an advisory lock, which is the database's: its name has the schema in it."""
    async with opened(postgres_url) as one, opened(postgres_url, schema="queue") as other:
        held = "SELECT count(*), count(DISTINCT objid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
        async with connected(postgres_url) as watching:
            for store in (one, other):
                await prepare(store)
            keys = [
                c.CreateApiKey(f"00000000-0000-7000-8000-00000000000{n}", "k", "h", f"d{n}", "admin") for n in (1, 2)
            ]
            async with connected(postgres_url) as blocker:
                await blocker.execute("BEGIN; LOCK TABLE ficha.api_keys, queue.api_keys IN ACCESS EXCLUSIVE MODE")
                writing = [asyncio.create_task(run(one, keys[0])), asyncio.create_task(run(other, keys[1]))]

                async def both_hold() -> bool:
                    found = await watching.fetchrow(held)
                    return found is not None and tuple(found) == (2, 2)

                await until(both_hold)
                await blocker.execute("COMMIT")
            await asyncio.gather(*writing)


async def test_a_schema_that_somebody_else_made_is_enough(postgres_url: str) -> None:
    """The role may make tables there, and no schema of its own."""
    async with connected(postgres_url) as admin:
        name = await admin.fetchval("SELECT current_database()")
        role = f"maker_{name}"
        await admin.execute(
            f"CREATE ROLE {role} LOGIN; CREATE SCHEMA ficha AUTHORIZATION {role}; "
            f"REVOKE CREATE ON DATABASE {name} FROM PUBLIC, {role}"
        )
        try:
            url = postgres_url.replace("postgres@", f"{role}@")
            with pytest.raises(StoreError, match="permission denied for database"):
                await PostgresStore(url, schema="queue").migrate()
            async with opened(url) as store:
                await live(store)
        finally:
            await admin.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


def test_the_printed_sql_names_the_schema() -> None:
    store = PostgresStore("postgresql://x@/y", schema="queue")
    texts = (step.text for migration in store.migrations for step in (*migration.up, *migration.down))
    for text in (store.bookkeeping, *texts, script(store, 0, store.migrations[-1].number)):
        assert "ficha" not in text
        assert "queue." in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((name, "up to 48 lower-case letters") for name in ("", "Queue", "a-b", "a b", 'a"b', "1a", "a" * 49, "é", 7)),
        *((name, "not for Ficha alone") for name in ("public", "pg_catalog", "pg_x", "information_schema")),
        *((name, "reserved word") for name in ("user", "order", "table")),
    ],
)
def test_what_is_no_name_of_a_schema_is_told_in_words(name: Any, words: str) -> None:
    assert words in (schema_problem(name) or "")
    if name:
        with pytest.raises(ValueError, match=words):
            Ficha("memory:", schema=name)
        with pytest.raises(StoreError, match=words):
            store_for(f"postgresql://x@/y?ficha_schema={name}")


async def test_every_word_that_postgresql_reserves_is_refused(postgres_url: str) -> None:
    async with connected(postgres_url) as connection:
        found = await connection.fetch("SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')")
    assert {word for (word,) in found} <= RESERVED


def test_the_name_comes_from_the_url_the_argument_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Ficha("memory:").schema == "ficha"
    monkeypatch.setenv("FICHA_SCHEMA", "from_environment")
    assert Ficha("memory:").schema == "from_environment"
    assert Ficha("memory:", schema="argued").schema == "argued"
    for url, schema in (("postgresql://x@/y", "argued"), ("postgresql://x@/y?ficha_schema=asked", "asked")):
        store = store_for(url, "argued")
        assert isinstance(store, PostgresStore)
        assert store.schema == schema


async def test_sqlite_and_memory_have_no_schema_and_ignore_the_name(tmp_path: Any) -> None:
    for url in ("memory:", f"sqlite:///{tmp_path}/ficha.db"):
        async with Ficha(url, schema="queue") as app:
            await app.open_account("ana", credits=1)
            assert await app.verify() == []


def test_only_the_word_itself_is_the_schema() -> None:
    text = "SELECT FROM ficha.jobs, my_ficha.jobs, ficha_too.jobs WHERE 'ficha api keys' = ficha.f()"
    assert in_schema(text, "q") == "SELECT FROM q.jobs, my_ficha.jobs, ficha_too.jobs WHERE 'q api keys' = q.f()"
    assert in_schema("SELECT FROM ficha.jobs", "") == "SELECT FROM jobs"
    assert in_schema(in_schema(text, "my_ficha"), "my_ficha") == in_schema(text, "my_ficha")


async def test_a_connection_leaves_nothing_behind(postgres_url: str) -> None:
    """Behind a pooler in transaction mode, a path that was set would be the next one's."""
    async with opened(postgres_url, schema="queue") as store:
        await live(store)
        for pool in (store._writers, store._readers):
            async with pool.take() as connection:
                assert await connection.fetchval("SHOW search_path") == '"$user", public'
                assert isinstance(connection, asyncpg.Connection)
