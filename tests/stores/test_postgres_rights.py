"""Who may see and write Ficha's tables in PostgreSQL: the owner, and nobody else but what was granted on purpose."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from ficha.core import commands as c
from ficha.store.base import StoreError
from ficha.store.postgres import PostgresStore
from tests.stores.postgres_setup import connected, leased, opened, prepare, run, submit

# The roles of a Supabase project, and all that it gives them; and more: not only in `public`, but everywhere.
SUPABASE = """
    DO $$ BEGIN CREATE ROLE anon; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
    DO $$ BEGIN CREATE ROLE authenticated; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
    GRANT ALL ON SCHEMA public TO anon, authenticated;
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO anon, authenticated;
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON FUNCTIONS TO anon, authenticated;
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON SEQUENCES TO anon, authenticated;
    ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC, anon, authenticated;
    ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO PUBLIC, anon, authenticated;
    ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO PUBLIC, anon, authenticated;
    ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO PUBLIC, anon, authenticated;
"""
RELATIONS = (
    "SELECT relname::text FROM pg_class WHERE relnamespace = 'ficha'::regnamespace AND relkind IN ('r', 'p', 'v')"
)
# `grantee` is 0 for PUBLIC.
RIGHTS = """
    WITH held AS (
        SELECT oid::regclass::text AS what, a.* FROM pg_class, aclexplode(relacl) AS a
        WHERE relnamespace = 'ficha'::regnamespace
        UNION ALL
        SELECT oid::regprocedure::text, a.* FROM pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner))) AS a
        WHERE pronamespace = 'ficha'::regnamespace
        UNION ALL
        SELECT nspname::text, a.* FROM pg_namespace, aclexplode(nspacl) AS a WHERE nspname = 'ficha'
    )
    SELECT what, privilege_type FROM held
    WHERE grantee = 0 OR grantee IN (SELECT oid FROM pg_roles WHERE rolname IN ('anon', 'authenticated'))
"""


@asynccontextmanager
async def a_role(admin: asyncpg.Connection, options: str = "") -> AsyncIterator[str]:
    """A role for one test."""
    name = f"role_{uuid4().hex}"
    await admin.execute(f"CREATE ROLE {name} {options}")
    try:
        yield name
    finally:
        await admin.execute(f"RESET ROLE; DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


@asynccontextmanager
async def speaking_as(admin: asyncpg.Connection, role: str) -> AsyncIterator[None]:
    await admin.execute(f"SET ROLE {role}")
    try:
        yield
    finally:
        await admin.execute("RESET ROLE")


@pytest.mark.req("D10")
@pytest.mark.parametrize("role", ["anon", "authenticated", "somebody"])
async def test_default_privileges_give_nobody_a_right(postgres_url: str, role: str) -> None:
    async with connected(postgres_url) as admin, a_role(admin) as somebody:
        await admin.execute(SUPABASE)
        async with opened(postgres_url) as store:
            await prepare(store)
            await leased(store)
            assert await store.writers() == []
        assert await admin.fetch(RIGHTS) == []
        relations = [name for (name,) in await admin.fetch(RELATIONS)]
        assert {"accounts", "entries", "api_keys", "job_states", "migrations"} <= {*relations}
        async with speaking_as(admin, somebody if role == "somebody" else role):
            for name in relations:
                for act in ("SELECT FROM ficha.{0}", "INSERT INTO ficha.{0} DEFAULT VALUES", "DELETE FROM ficha.{0}"):
                    with pytest.raises(asyncpg.InsufficientPrivilegeError):
                        await admin.execute(act.format(name))
            for act in (
                "UPDATE ficha.accounts SET balance = 10",
                "TRUNCATE ficha.accounts",
                "SELECT ficha.current_account()",
            ):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await admin.execute(act)


@pytest.mark.req("D10")
async def test_every_table_has_row_level_security_and_no_policy_for_writing(migrated_url: str) -> None:
    async with connected(migrated_url) as admin:
        tables = await admin.fetch("SELECT tablename, rowsecurity FROM pg_tables WHERE schemaname = 'ficha'")
        assert [name for name, is_on in tables if not is_on] == []
        assert len(tables) >= 23
        policies = await admin.fetch("SELECT DISTINCT cmd FROM pg_policies WHERE schemaname = 'ficha'")
        assert [tuple(policy) for policy in policies] == [("SELECT",)]
        [(is_invoker,)] = await admin.fetch(
            "SELECT 'security_invoker=true' = ANY (reloptions) FROM pg_class WHERE oid = 'ficha.job_states'::regclass"
        )
        assert is_invoker, "a view is read with its reader's rights"


@pytest.mark.req("D10")
async def test_rights_granted_by_mistake_change_no_row_and_are_told(postgres_url: str) -> None:
    async with opened(postgres_url) as store, connected(postgres_url) as admin, a_role(admin) as role:
        await prepare(store)
        await leased(store)
        await admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA ficha TO {role}")
        assert await store.writers() == [], "without a right on the schema, it reaches no table"
        await admin.execute(f"GRANT USAGE ON SCHEMA ficha TO {role}")
        assert await store.writers() == [role]
        async with speaking_as(admin, role):
            assert await admin.execute("UPDATE ficha.accounts SET balance = 10") == "UPDATE 0"
            assert await admin.execute("DELETE FROM ficha.leases") == "DELETE 0"
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                await admin.execute("INSERT INTO ficha.pools VALUES ('p', 1, 1, false)")
        await admin.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA ficha FROM {role}")
        assert await store.writers() == []
        await admin.execute(f"GRANT UPDATE (balance) ON ficha.accounts TO {role}")
        assert await store.writers() == [role], "one column is enough"


OWNED = ("accounts", "jobs", "job_states", "ready", "leases", "entries", "events", "keys", "checkpoints", "steps")
SHARED = (
    *("pools", "commits", "workers", "worker_counts", "migrations"),
    *("api_keys", "api_key_uses", "audit"),
)


@pytest.mark.req("D10")
@pytest.mark.parametrize("schema", ["ficha", "queue"])
async def test_a_reader_sees_the_rows_of_the_account_it_speaks_for(postgres_url: str, schema: str) -> None:
    async with (
        opened(postgres_url, schema=schema) as store,
        connected(postgres_url) as admin,
        a_role(admin) as role,
    ):
        await prepare(store, "ana", "bob")
        for account in ("ana", "bob"):
            _, [claimed] = await run(store, submit(account)), await run(store, c.Claim("w1", ("gpu",), 1))
            lease = claimed.leases[0]
            await run(store, c.SaveCheckpoint(lease.job.id, 1, "here"), c.SaveStep(lease.job.id, 1, "step", "1"))
        await run(store, submit("ana"), submit("bob"), c.RegisterWorker("w1", "host", 1, ("gpu",), 1, "1.0", 1_000))
        key = c.CreateApiKey(str(uuid4()), "web", "hint", "digest", "user", "ana")
        await run(store, c.ActingAs("boss", key), c.UseApiKey(key.key_id))
        await admin.execute(
            f"GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}; "
            f"GRANT EXECUTE ON FUNCTION {schema}.current_account() TO {role}"
        )

        async def seen(table: str) -> int:
            return int(await admin.fetchval(f"SELECT count(*) FROM {schema}.{table}"))

        everything = {table: await seen(table) for table in OWNED}
        async with speaking_as(admin, role):
            assert {table: await seen(table) for table in (*OWNED, *SHARED)} == dict.fromkeys((*OWNED, *SHARED), 0)
            async with admin.transaction():
                await admin.execute(f"SELECT set_config('{schema}.account', 'ana', true)")
                assert {table: await seen(table) for table in OWNED} == {t: n // 2 for t, n in everything.items()}
                assert await admin.fetchval(f"SELECT DISTINCT account_id FROM {schema}.job_states") == "ana"
                assert {table: await seen(table) for table in SHARED} == dict.fromkeys(SHARED, 0)
            # The setting ended with its transaction, though the connection goes on.
            assert {table: await seen(table) for table in OWNED} == dict.fromkeys(OWNED, 0)
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await admin.execute(f"UPDATE {schema}.accounts SET balance = 10")
        # Ficha itself owns the tables and is not held back.
        await run(store, submit("ana"))


async def test_a_reader_with_the_rights_that_the_guide_gives_reads_no_internal_error(postgres_url: str) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "postgresql.md").read_text(encoding="utf-8")
    granting = next(part for part in re.findall(r"```sql\n(.*?)```", guide, re.DOTALL) if "TO reader" in part)
    async with opened(postgres_url) as store, connected(postgres_url) as admin, a_role(admin) as role:
        await prepare(store)
        job_id, epoch = await leased(store)
        await run(store, c.Finish(job_id, c.Failed("db1.internal", final=True), epoch))
        await admin.execute(granting.replace("reader", role))
        async with speaking_as(admin, role):
            async with admin.transaction():
                await admin.execute("SELECT set_config('ficha.account', 'ana', true)")
                [row] = await admin.fetch("SELECT * FROM ficha.job_states")
            assert (row["status"], row["user_error"]) == ("failed", None)
            assert "db1.internal" not in str(dict(row))
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await admin.fetch("SELECT error FROM ficha.jobs")


async def test_who_the_reader_speaks_for_may_be_told_by_another_function(postgres_url: str) -> None:
    """As with Supabase, where it is the user of the JWT."""
    async with opened(postgres_url) as store, connected(postgres_url) as admin, a_role(admin) as role:
        await prepare(store, "ana", "bob")
        await admin.execute(
            "CREATE SCHEMA auth; CREATE FUNCTION auth.uid() RETURNS text LANGUAGE sql AS $$ SELECT 'bob' $$;"
            "CREATE OR REPLACE FUNCTION ficha.current_account() RETURNS text LANGUAGE sql STABLE SET search_path = '' "
            "AS $$ SELECT auth.uid()::text $$;"
            f"GRANT USAGE ON SCHEMA ficha, auth TO {role}; GRANT SELECT ON ficha.accounts TO {role};"
            f"GRANT EXECUTE ON FUNCTION ficha.current_account() TO {role}"
        )
        async with speaking_as(admin, role):
            assert [tuple(row) for row in await admin.fetch("SELECT id FROM ficha.accounts")] == [("bob",)]


async def use(url: str) -> None:
    """What an application does, on a schema that somebody else has migrated."""
    store = PostgresStore(url)
    await store.open()
    try:
        await prepare(store)
        for _ in range(2):
            job_id, epoch = await leased(store)
            await run(store, c.Finish(job_id, c.Completed("{}"), epoch))
        await store.tidy(1)
    finally:
        await store.close()


async def test_an_application_may_connect_as_a_member_of_the_owner_or_past_row_level_security(
    postgres_url: str,
) -> None:
    async with connected(postgres_url) as admin, a_role(admin, "LOGIN") as owner:
        await admin.execute(f"GRANT CREATE ON DATABASE {await admin.fetchval('SELECT current_database()')} TO {owner}")
        store = PostgresStore(postgres_url.replace("postgres@", f"{owner}@"))
        await store.migrate()
        async with a_role(admin, f"LOGIN IN ROLE {owner}") as member:
            await use(postgres_url.replace("postgres@", f"{member}@"))
            assert await store.writers() == []
    async with (
        connected(postgres_url) as admin,
        a_role(admin, "LOGIN") as plain,
        a_role(admin, "LOGIN BYPASSRLS") as past,
    ):
        await PostgresStore(postgres_url).migrate()
        for role in (plain, past):
            await admin.execute(
                f"GRANT USAGE ON SCHEMA ficha TO {role}; "
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ficha TO {role}"
            )
        await use(postgres_url.replace("postgres@", f"{past}@"))
        with pytest.raises(StoreError, match="row-level security"):
            await use(postgres_url.replace("postgres@", f"{plain}@"))
        assert await PostgresStore(postgres_url).writers() == sorted((plain, past))


async def test_the_guides_statements_do_what_it_says(postgres_url: str) -> None:
    """The blocks of docs/postgresql.md, in their order, with roles of the test's own."""
    guide = (Path(__file__).parents[2] / "docs/postgresql.md").read_text()
    member, past, reading, look, supabase = re.findall(r"```sql\n(.*?)```", guide, re.DOTALL)
    own = uuid4().hex
    owner, shop, other_shop, reader = (f"{name}_{own}" for name in ("owner", "shop", "other", "reader"))
    async with connected(postgres_url) as admin:
        name = await admin.fetchval("SELECT current_database()")
        await admin.execute(
            f"CREATE ROLE {owner} LOGIN; GRANT CREATE ON DATABASE {name} TO {owner}; CREATE ROLE {reader}"
        )
        await PostgresStore(postgres_url.replace("postgres@", f"{owner}@")).migrate()
        for text, role in ((member, shop), (past, other_shop)):
            await admin.execute(text.replace("ficha_owner", owner).replace("shop", role))
        await use(postgres_url.replace("postgres@", f"{shop}@"))
        await admin.execute(reading.replace("TO reader", f"TO {reader}"))
        async with speaking_as(admin, reader):
            *begin, select, end = [line for line in look.splitlines() if line]
            await admin.execute("".join(begin))
            assert {row["account_id"] for row in await admin.fetch(select)} == {"ana"}
            await admin.execute(end)
        await admin.execute(
            "CREATE SCHEMA auth; CREATE FUNCTION auth.uid() RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$"
        )
        await admin.execute(f"{supabase}; GRANT USAGE ON SCHEMA auth TO {reader}")
        async with speaking_as(admin, reader):
            assert await admin.fetch("SELECT FROM ficha.accounts") == []
        assert await PostgresStore(postgres_url).writers() == [other_shop]
        for role in (reader, other_shop, shop, owner):
            await admin.execute(f"DROP OWNED BY {role} CASCADE")
            await admin.execute(f"DROP ROLE {role}")
