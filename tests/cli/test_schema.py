"""`ficha migrate` and `ficha verify`: the schema, and the proof that all is well."""

import asyncio
import json
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import asyncpg
import pytest
from msgspec.structs import replace

from ficha import Ficha
from ficha.core.commands import RegisterWorker
from ficha.engine import write_probe
from ficha.store.connect import migrator_for, store_for
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from tests.cli.running import Run
from tests.cli.terminals import terminal
from tests.support.postgres import Server, new_database
from tests.support.server_process import served

ODD_NAME = "[/bold] :car: [red]"
"""A name that a terminal library could take for orders."""


async def execute(url: str, sql: str) -> None:
    """Somebody's own hand in the database."""
    if url.startswith("sqlite"):
        db = apsw.Connection(url.removeprefix("sqlite:///"))
        try:
            db.execute(sql)
        finally:
            db.close()
        return
    # The statements are for both databases, so the path says where the tables are.
    connection = await asyncpg.connect(url, server_settings={"search_path": "ficha"})
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def run_script(url: str, sql: str, server: Server) -> None:
    """The same for a script of several transactions, with the tool that people use."""
    if url.startswith("sqlite"):
        return await execute(url, sql)
    command = [server.programs / "psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", f"--dbname={url}"]
    done = await asyncio.to_thread(subprocess.run, command, input=sql, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return None


async def schema(url: str) -> list[Any]:
    """All that the database consists of, by its own word."""
    if url.startswith("sqlite"):
        db = apsw.Connection(url.removeprefix("sqlite:///"))
        try:
            return sorted(
                db.execute("select type, name, sql from sqlite_schema where name <> 'schema_migrations'").fetchall(),
                key=str,
            )
        finally:
            db.close()
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "select table_name, column_name, data_type, column_default, is_nullable from information_schema.columns "
            "where table_schema = 'ficha' union all "
            "select tablename, indexname, indexdef, null, null from pg_indexes where schemaname = 'ficha' union all "
            "select tablename, policyname, cmd, qual, null from pg_policies where schemaname = 'ficha' union all "
            "select oid::regclass::text, relkind::text, relrowsecurity::text, relacl::text, null from pg_class "
            "where relnamespace = to_regnamespace('ficha') union all "
            "select nspname, nspacl::text, null, null, null from pg_namespace where nspname = 'ficha' order by 1, 2, 3"
        )
        return [tuple(row) for row in rows]
    finally:
        await connection.close()


def newest(url: str) -> int:
    store = SqliteStore("x.db") if url.startswith("sqlite") else PostgresStore(url)
    return store.migrations[-1].number


async def test_the_command_is_installed_and_speaks_to_programs_and_people(process: Run, folder: Path) -> None:
    url = f"sqlite:///{folder / 'ficha.db'}"
    up = process("migrate", "up", "--json", database=url)
    assert (up.data["version"], up.err) == (newest(url), "")
    await _open_shop(url)
    await execute(url, "update accounts set balance = balance + 1 where id = 'ana'")
    broken = process("verify", database=url, expect=1)
    assert broken.err.splitlines()[0] == "wrong: account ana shows 96 credits, its entries add up to 95"
    assert broken.out == ""


async def test_the_schema_goes_up_and_down_and_says_where_it_is(ficha: Run, empty: str) -> None:
    last = newest(empty)
    numbers = [migration.number for migration in migrator_for(empty).migrations]
    told = ficha("migrate", "status", "--json", database=empty).data
    assert (told["version"], told["newest"], told["works"]) == (0, last, True)
    first = {"number": 1, "name": "foundation", "kind": "breaking", "state": "pending"}
    assert told["migrations"][0] == first
    assert [row["number"] for row in told["migrations"]] == numbers
    status = ficha("migrate", "status", database=empty)
    assert (status.out, "pending    0001 foundation (breaking)" in status.err) == ("", True)
    assert "run `ficha migrate up`" in status.err
    if empty.startswith("sqlite"):
        assert os.listdir() == [], "asking makes nothing"

    assert ficha("migrate", "up", "--json", "--database", empty).data == {"applied": numbers, "version": last}
    made = await schema(empty)
    assert ficha("migrate", "up", "--json", database=empty).data == {"applied": [], "version": last}
    assert "applied    0001 foundation (breaking)" in ficha("migrate", "status", database=empty).err

    down = ficha("migrate", "down", "--to", "0", database=empty)
    assert (down.out, "is at version 0" in down.err) == ("", True)
    assert "done  0001 foundation" in down.err
    left = [row for row in await schema(empty) if not re.search("migrations|sqlite_sequence", str(row))]
    assert left == [row for row in made if row[0] == "ficha"]
    assert ficha("migrate", "down", "--json", database=empty).data == {"applied": [], "version": 0}

    up = ficha("migrate", "up", database=empty)
    assert (up.out, "done  0001 foundation" in up.err) == ("", True)
    assert await schema(empty) == made


async def test_the_printed_sql_makes_and_unmakes_the_same_schema(
    ficha: Run, empty: str, postgres_server: Server
) -> None:
    last = newest(empty)
    printed = ficha("migrate", "sql", database=empty)
    assert printed.err == ""
    await run_script(empty, printed.out, postgres_server)
    by_hand = await schema(empty)
    told = ficha("migrate", "status", "--json", database=empty).data
    assert (told["version"], {row["state"] for row in told["migrations"]}) == (last, {"applied"})
    back = ficha("migrate", "sql", "--from", str(last), "--to", "0", database=empty).out
    await run_script(empty, back, postgres_server)
    assert ficha("migrate", "status", "--json", database=empty).data["version"] == 0
    ficha("migrate", "up", database=empty)
    assert await schema(empty) == by_hand


async def test_verify_finds_what_a_hand_has_broken_and_nothing_else(ficha: Run, empty: str) -> None:
    ficha("migrate", "up", database=empty)
    await _open_shop(empty)
    well = ficha("verify", database=empty)
    assert (well.out, well.err.strip().endswith("all is well")) == ("", True)
    assert ficha("verify", "--json", database=empty).data == {"ok": True, "violations": []}

    await execute(empty, "update accounts set balance = balance + 1, active = active + 2")
    broken = ficha("verify", database=empty, expect=1)
    assert broken.out == ""
    sentences = [
        sentence
        for account in ("ana", ODD_NAME)
        for sentence in (
            f"account {account} shows 96 credits, its entries add up to 95",
            f"account {account} counts 3 active jobs, there are 1",
        )
    ]
    for sentence in sentences:
        assert f"wrong: {sentence}\n" in broken.err
    assert "4 things are wrong" in broken.err
    told = ficha("verify", "--json", database=empty, expect=1).data
    assert told["ok"] is False
    assert sorted(told["violations"]) == sorted(sentences)


async def test_verify_finds_that_a_guard_of_the_ledger_is_gone(ficha: Run, empty: str) -> None:
    ficha("migrate", "up", database=empty)
    await execute(
        empty,
        "drop index entries_once_per_job" if empty.startswith("sqlite") else "drop index ficha.entries_once_per_job",
    )
    told = ficha("verify", "--json", database=empty, expect=1).data
    assert told["violations"] == ["The unique index entries_once_per_job is missing."]


async def _open_shop(url: str) -> None:
    """Two accounts with a job each."""
    app = Ficha(url, sweep_by_itself=False)
    app.tool(name="draw", cost=5)(lambda job: None)
    async with app:
        for account in ("ana", ODD_NAME):
            await app.open_account(account, credits=100)
            await app.submit("draw", account=account)
        await app.claim("default", worker="w")


async def test_a_newer_schema_is_left_alone(ficha: Run, empty: str) -> None:
    ficha("migrate", "up", database=empty)
    table = "schema_migrations" if empty.startswith("sqlite") else "migrations"
    await execute(empty, f"insert into {table} (version, works_from) values (999, 999)")
    for arguments in (("migrate", "up"), ("migrate", "down", "--to", "0"), ("verify",)):
        refused = ficha(*arguments, database=empty, expect=1)
        assert refused.out == ""
        assert "999" in refused.err
    assert "upgrade ficha. The order of steps: stop all" in ficha("migrate", "status", database=empty).err
    assert ficha("migrate", "status", "--json", database=empty).data["works"] is False


@pytest.mark.req("B11")
async def test_status_names_what_is_newer_what_is_half_done_and_what_to_do(ficha: Run, empty: str) -> None:
    ficha("migrate", "up", database=empty)
    table = "schema_migrations" if empty.startswith("sqlite") else "migrations"
    await execute(empty, f"insert into {table} (version, name, works_from) values (999, 'later', 1)")
    newer = ficha("migrate", "status", database=empty)
    assert "applied    0999 later (additive)" in newer.err
    assert "a newer release made version 999; this one works with it" in newer.err
    assert ficha("migrate", "up", "--json", database=empty).data == {"applied": [], "version": 999}
    assert "all is well" in ficha("verify", database=empty).err
    refused = ficha("migrate", "down", "--to", "0", "--yes", database=empty, expect=1)
    assert "run `ficha migrate down` with the release that made it" in refused.err

    await execute(empty, f"delete from {table} where version = 999; update {table} set steps_left = 2")
    half = ficha("migrate", "status", database=empty).err
    assert "half done  0001 foundation (breaking)" in half
    assert "migration 1 is half done: 2 of its steps have not run. `ficha migrate up` goes on with it" in half
    states = ficha("migrate", "status", "--json", database=empty).data["migrations"]
    assert {row["state"] for row in states} == {"half done"}
    refused = ficha("verify", database=empty, expect=1)
    assert "(migration 1 is half done)" in refused.err


async def test_a_database_without_the_schema_is_told_to_migrate(ficha: Run, empty: str) -> None:
    refused = ficha("verify", database=empty, expect=1)
    assert (refused.out, refused.err.startswith("error: ")) == ("", True)
    assert refused.err.endswith("run `ficha migrate up` [DATABASE]\n")
    told = ficha("verify", "--json", database=empty, expect=1)
    assert (told.out, told.error["code"], told.error["retryable"]) == ("", "DATABASE", False)
    assert told.error["message"].endswith("run `ficha migrate up`")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("migrate", "up", "--to", "99"), 2, "there is no version 99"),
        (("migrate", "up", "--to", "-1"), 2, "--to"),
        (("migrate", "up", "--to", "x"), 2, "--to"),
        (("migrate", "down", "--to", "1"), 2, "use `ficha migrate up --to 1`"),
        (("migrate", "down", "--to", "99"), 2, "there is no version 99"),
        (("migrate", "sideways"), 2, "No such command"),
        (("verify", "--database", "postgresql://user@/db?ficha_schema=Q"), 1, "a schema's name has"),
        (("verify", "--database", "nonsense"), 1, "is none of: sqlite:///file.db"),
        (("verify", "--database", "mysql://user:secret@host/db"), 1, "is none of"),
        (("verify", "--database", "postgresql://user:secret@[half/db"), 1, "cannot be read"),
        (("verify", "--database", "postgresql://user:secret@/db?host=/nowhere"), 1, "cannot be reached"),
        (("migrate", "up", "--database", "memory:"), 1, "has no schema to migrate"),
        (("migrate", "up", "--database", "sqlite:////no/such/folder/ficha.db"), 1, "make it first"),
        (("verify", "--database", "sqlite:///[/red].db"), 1, "[/red].db yet: run `ficha migrate up`"),
        (("nonsense",), 2, "No such command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_told_in_words(ficha: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    refused = ficha(*arguments, expect=code)
    assert refused.out == ""
    assert words in " ".join(refused.err.split()) or words in _unwrapped(refused.err)
    assert "secret" not in refused.err


def _unwrapped(text: str) -> str:
    """The words of a message that a frame of lines was drawn around."""
    return " ".join(word for word in text.split() if word not in ("│", "╭", "╰"))


def test_no_arguments_show_the_help_and_the_help_names_every_command(ficha: Run) -> None:
    shown = ficha("--help").out
    for command in ("migrate", "verify"):
        assert command in shown
    for command in ("up", "down", "sql", "status"):
        assert command in ficha("migrate", "--help").out
    assert "migrate" in ficha(expect=2).out + ficha(expect=2).err


def test_the_database_is_the_file_in_this_folder_unless_said_otherwise(ficha: Run, tmp_path: Path) -> None:
    ficha("migrate", "up")
    assert (tmp_path / "ficha.db").exists()
    ficha("migrate", "up", database="sqlite:///other.db")
    assert (tmp_path / "other.db").exists()
    ficha("migrate", "up", "--database", "sqlite:///third.db", database="sqlite:///other.db")
    assert (tmp_path / "third.db").exists()


async def test_roles_that_may_write_are_warned_of(ficha: Run, postgres_server: Server) -> None:
    async with new_database(postgres_server) as url:
        assert "may write" not in ficha("migrate", "up", database=url).err
        connection = await asyncpg.connect(url)
        role = f"role_{uuid4().hex}"
        await connection.execute(
            f"create role {role}; grant usage on schema ficha to {role}; grant insert on ficha.entries to {role}"
        )
        try:
            for verb in ("up", "status"):
                assert f"note: the role {role} may write Ficha's tables" in ficha("migrate", verb, database=url).err
            told = ficha("migrate", "status", "--json", database=url)
            assert (told.data["works"], role in told.err) == (True, True)
        finally:
            await connection.execute(f"drop owned by {role}; drop role {role}")
            await connection.close()


async def test_the_schema_is_that_of_the_application_the_environment_or_the_url(
    ficha: Run, postgres_server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "app.py").write_text("from ficha import Ficha\napp = Ficha(schema='of_app')\n")
    async with new_database(postgres_server) as url:
        ficha("migrate", "up", database=url)
        monkeypatch.setenv("FICHA_SCHEMA", "of_environment")
        ficha("migrate", "up", "--database", url)
        ficha("migrate", "up", "--database", f"{url}&ficha_schema=of_url")
        ficha("account", "create", "ana", "--credits", "7", "--database", f"{url}&ficha_schema=of_url")
        connection = await asyncpg.connect(url)
        found = await connection.fetch("select schemaname from pg_tables where tablename = 'accounts' order by 1")
        assert [name for (name,) in found] == ["of_app", "of_environment", "of_url"]
        counts = [await connection.fetchval(f"select count(*) from {name}.accounts") for (name,) in found]
        assert counts == [0, 0, 1]
        await connection.close()


async def test_the_schema_is_not_taken_from_live_workers_unasked(ficha: Run, empty: str) -> None:
    ficha("migrate", "up", database=empty)
    async with Ficha(empty, sweep_by_itself=False) as app:
        word = RegisterWorker("w1", "host", 1, ("default",), 1, "1.0", 60_000)
        worker = await app.register_worker(word)
        before = await schema(empty)
        for arguments in ((), ("--to", "1"), ("--to", "0")):
            refused = ficha("migrate", "down", *arguments, database=empty, expect=1)
            assert "processes are alive and may need what would be dropped: worker w1 (1.0). Stop all" in refused.err
        assert await schema(empty) == before
        await app.register_worker(replace(word, started_at=worker.started_at, stops=True))
    ficha("migrate", "down", database=empty)
    ficha("migrate", "up", database=empty)
    async with Ficha(empty, sweep_by_itself=False) as app:
        await app.register_worker(word)
    ficha("migrate", "down", "--yes", database=empty)
    assert await schema(empty) != before


def test_the_schema_is_not_taken_from_a_live_server_unasked(ficha: Run, empty: str, folder: Path) -> None:
    migrator = migrator_for(empty)
    asyncio.run(migrator.migrate())
    before = asyncio.run(schema(empty))
    named = f"a server on {socket.gethostname()}"
    with served(empty):
        refused = ficha("migrate", "down", database=empty, expect=1)
        assert f"may need what would be dropped: {named}. Stop all servers and workers first" in refused.err
        with terminal("migrate", "down", "--database", empty, cwd=folder) as screen:
            screen.wait_for("Go on? [y/N]")
            assert named in " ".join(screen.shown.split())
            screen.enter("n")
            assert screen.end() == 1
        assert asyncio.run(schema(empty)) == before
        with terminal("migrate", "down", "--database", empty, cwd=folder) as screen:
            screen.wait_for("Go on? [y/N]")
            screen.enter("y")
            assert screen.end() == 0
        assert asyncio.run(migrator.version()) == newest(empty) - 1


def test_a_server_counts_as_alive_until_a_while_after_its_last_trial(
    ficha: Run, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(migrator_for(empty).migrate())
    with served(empty):
        pass
    assert "a server on" in ficha("migrate", "down", database=empty, expect=1).err
    monkeypatch.setattr(write_probe, "FRESH_S", -write_probe.EVERY_S)
    ficha("migrate", "down", database=empty)


async def test_a_ledger_with_entries_is_not_dropped_unasked(ficha: Run, empty: str, folder: Path) -> None:
    ficha("migrate", "up", database=empty)
    await _open_shop(empty)
    before = await schema(empty)
    refused = ficha("migrate", "down", "--to", "0", database=empty, expect=1)
    assert refused.out == ""
    assert "the ledger has entries, and all of it would be lost: add --yes, and --export FILE" in refused.err
    told = ficha("migrate", "down", "--to", "0", "--json", "--export", "kept.jsonl", database=empty, expect=1)
    assert (told.error["code"], told.error["retryable"]) == ("INVALID_STATE", False)
    assert not (folder / "kept.jsonl").exists(), "nothing is begun that will not be done"
    assert await schema(empty) == before
    assert "all is well" in ficha("verify", database=empty).err

    done = ficha("migrate", "down", "--to", "0", "--yes", "--export", "kept.jsonl", "--json", database=empty)
    assert (done.data["applied"][-1], done.data["version"]) == (1, 0)
    assert "4 ledger entries are in kept.jsonl" in done.err
    kept = [json.loads(line) for line in (folder / "kept.jsonl").read_text().splitlines()]
    assert [(entry["account"], entry["number"], entry["kind"], entry["amount"]) for entry in kept] == [
        (account, number, kind, amount)
        for account in sorted(("ana", ODD_NAME))
        for number, kind, amount in ((2, "charge", -5), (1, "grant", 100))
    ]
    assert ficha("migrate", "status", "--json", database=empty).data["version"] == 0


async def test_an_export_overwrites_nothing_and_no_export_no_drop(ficha: Run, empty: str, folder: Path) -> None:
    ficha("migrate", "up", database=empty)
    await _open_shop(empty)
    (folder / "kept.jsonl").write_text("precious")
    for file in ("kept.jsonl", "no/such/folder"):
        refused = ficha("migrate", "down", "--to", "0", "--yes", "--export", file, database=empty, expect=1)
        assert "cannot be written" in refused.err
    assert (folder / "kept.jsonl").read_text() == "precious"
    assert "all is well" in ficha("verify", database=empty).err
    assert ficha("migrate", "down", "--to", "0", "--yes", "--json", database=empty).data["applied"][-1] == 1


async def test_a_ledger_without_entries_is_dropped_without_a_question(ficha: Run, empty: str) -> None:
    ficha("migrate", "up", database=empty)
    async with Ficha(empty, sweep_by_itself=False) as app:
        await app.open_account("ana")
    assert ficha("migrate", "down", "--to", "0", "--json", database=empty).data["applied"][-1] == 1


async def test_in_a_terminal_it_asks_before_the_ledger_is_dropped(empty: str, folder: Path) -> None:
    store = store_for(empty)
    assert isinstance(store, SqliteStore | PostgresStore)
    await store.migrate()
    await _open_shop(empty)
    for answer, code, version in (("n", 1, newest(empty)), ("y", 0, 0)):
        with terminal("migrate", "down", "--to", "0", "--database", empty, cwd=folder) as screen:
            screen.wait_for("(--export FILE keeps a copy) [y/N]")
            screen.enter(answer)
            assert screen.end() == code
        assert await store.version() == version


async def test_a_password_is_not_shown(ficha: Run, postgres_server: Server) -> None:
    async with new_database(postgres_server) as url:
        secret = url.replace("postgres@", "postgres:secret@")
        for arguments in (("migrate", "up"), ("verify",), ("migrate", "down")):
            done = ficha(*arguments, database=secret)
            assert "secret" not in done.out + done.err
            assert "***" in done.err
