"""Opening and closing: a database that cannot be used is told with what to do, and a closed application says so."""

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import asyncpg
import pytest

from ficha import Ficha, Lease, Overloaded, Pool
from ficha.core import commands as c
from ficha.store.base import CommitUnknown, ReadOnly, SchemaMismatch, StoreError, Unavailable
from tests.support.postgres import Server
from tests.support.shop import claim_one, shop, state


async def refused(url: str, kind: type[StoreError], words: str) -> None:
    """Opening fails with these words, leaves nothing running, and leaves the application closed."""
    app = shop(url)
    with pytest.raises(StoreError, match=words) as error:
        await app.open()
    assert type(error.value) is kind
    assert asyncio.all_tasks() == {asyncio.current_task()}
    with pytest.raises(RuntimeError, match="is not open"):
        await app.account("ana")


async def test_every_call_to_an_application_that_is_not_open_says_how_to_open_it(url: str) -> None:
    app = shop(url)
    async with app:
        await app.open_account("ana", plan="open", credits=100)
        job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
        lease = await claim_one(app)
    for closed in (app, shop(url)):
        for call in _calls(closed, job_id, lease):
            with pytest.raises(RuntimeError, match=r"use `async with app:` or `await app.open\(\)`"):
                await call


def _calls(app: Ficha, job_id: str, lease: Lease) -> Iterator[object]:
    yield app.open_account("ben")
    yield app.change_plan("ana", "pro")
    yield app.grant("ana", 5)
    yield app.adjust("ana", 5, reason="x")
    yield app.account("ana")
    yield app.accounts()
    yield app.ledger("ana")
    yield app.submit("upscale", {"image": "x"}, account="ana")
    yield app.submit_many([])
    yield app.submit_batch([("upscale", {"image": "x"})], account="ana")
    yield app.job(job_id)
    yield app.jobs()
    yield app.position(job_id)
    yield app.events()
    yield app.cancel(job_id)
    yield app.reserve("ana")
    yield app.consume(job_id)
    yield app.release(job_id)
    yield app.batch(job_id)
    yield app.cancel_batch(job_id)
    yield app.resume_batch(job_id)
    yield app.claim("gpu", worker="w")
    yield app.wait_for_work("gpu", 0.0)
    yield app.start(lease)
    yield app.heartbeat(lease)
    yield app.checkpoint(lease, "c")
    yield app.save_step(lease, "s", 1)
    yield app.steps(job_id)
    yield app.finish(lease, 1)
    yield app.finish_many([(lease, 1)])
    yield app.fail(lease, "no")
    yield app.retry(lease, 1)
    yield app.accept(lease, "ref")
    yield app.give_up(lease, "no")
    yield app.finish_job(job_id, c.Completed("1"))
    yield app.sweep()
    yield app.recover(job_id)
    yield app.stuck()
    yield app.dead_letters()
    yield app.requeue(job_id)
    yield app.discard(job_id)
    yield app.pools()
    yield app.queue_length("gpu")
    yield app.queue_depth("gpu")
    yield app.pause_pool("gpu")
    yield app.resume_pool("gpu")
    yield app.resize_pool("gpu", 1)
    yield app.stats()
    yield app.reservations()
    yield app.idempotency_keys()
    yield app.verify()
    yield app.note_verification(0)
    yield app.run_worker(burst=True)


async def test_an_application_is_opened_once_and_can_be_opened_again(url: str) -> None:
    app = shop(url)
    await app.close()
    async with app as same:
        assert same is app
        with pytest.raises(RuntimeError, match="open already"):
            await app.open()
        await app.open_account("ana", plan="open", credits=100)
    await app.close()
    await app.close()
    async with app:
        if url != "memory:":
            assert (await app.account("ana")).balance == 100


async def test_calls_under_way_are_answered_when_it_closes(url: str) -> None:
    app = shop(url)
    await app.open()
    await app.open_account("ana", plan="open", credits=100)
    calls = [asyncio.create_task(app.submit("upscale", {"image": str(n)}, account="ana")) for n in range(10)]
    waiter = asyncio.create_task(app.wait_for_work("cpu", 3_600))
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await app.close()
        assert [call.status for call in await asyncio.gather(*calls)] == ["queued"] * 10
        await waiter
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_at_once_answers_everybody_with_something_true(url: str) -> None:
    app = shop(url)
    await app.open()
    await app.open_account("ana", plan="open", credits=1_000)
    calls = [
        asyncio.create_task(app.submit("upscale", {"image": str(n)}, account="ana", idempotency_key=f"k{n}"))
        for n in range(20)
    ]
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await app.close(grace_s=0.0)
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(getattr(a, "status", None) == "queued" or isinstance(a, Overloaded | CommitUnknown) for a in answers)
    if url == "memory:":
        return
    async with app:
        kept = {key.key for key in await app.idempotency_keys(limit=100)}
        for number, answer in enumerate(answers):
            if not isinstance(answer, CommitUnknown):
                assert (f"k{number}" in kept) == (not isinstance(answer, Overloaded))
        assert await app.verify() == []


async def test_the_environment_says_where_the_data_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FICHA_DATABASE_URL", raising=False)
    async with Ficha():
        assert (tmp_path / "ficha.db").exists()
    monkeypatch.setenv("FICHA_DATABASE_URL", "sqlite:///other file.db")
    async with Ficha():
        assert (tmp_path / "other file.db").exists()
    async with Ficha("sqlite:///third%20file.db"):
        assert (tmp_path / "third file.db").exists()


# Addresses


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "is none of: sqlite:///file.db"),
        ("mysql://user:secret@host/db", "is none of: sqlite:///file.db"),
        ("file.db", "is none of"),
        ("/tmp/ficha.db", "is none of"),  # noqa: S108 (it is never made)
        ("sqlite:ficha.db", "names no file; write sqlite:///file.db"),
        ("sqlite://ficha.db", "names no file; write sqlite:///file.db"),
        ("sqlite:///", "names no file; write sqlite:///file.db"),
        ("postgresql://user:secret@host:notaport/db", "port|URL"),
        ("postgresql://user:secret@[half/db", "URL"),
    ],
)
async def test_an_address_that_leads_nowhere(url: str, words: str) -> None:
    with pytest.raises(StoreError, match=words) as error:
        await Ficha(url).open()
    assert "secret" not in str(error.value)


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    await refused(f"postgresql://postgres@/db?host={tmp_path}", Unavailable, "cannot be reached")


async def test_a_database_that_is_not_there(postgres_server: Server) -> None:
    await refused(postgres_server.url("nothing"), StoreError, 'database "nothing" does not exist')


# Schemas


async def test_postgresql_without_the_schema_is_told_to_migrate(postgres_url: str) -> None:
    await refused(postgres_url, SchemaMismatch, "run `ficha migrate up`")
    connection = await asyncpg.connect(postgres_url)
    try:
        made = await connection.fetchval("select count(*) from pg_namespace where nspname = 'ficha'")
        assert made == 0, "opening it makes nothing"
    finally:
        await connection.close()


async def test_an_embedded_database_is_migrated_by_itself(tmp_path: Path) -> None:
    async with shop(f"sqlite:///{tmp_path / 'new.db'}") as app:
        assert await app.verify() == []
    (tmp_path / "empty.db").touch()
    async with shop(f"sqlite:///{tmp_path / 'empty.db'}") as app:
        assert await app.verify() == []


async def test_a_newer_schema_is_left_alone(tmp_path: Path, shared_database: str) -> None:
    file = tmp_path / "ficha.db"
    async with shop(f"sqlite:///{file}") as app:
        await app.open_account("ana", plan="open", credits=5)
        before = await state(app)
    _execute(file, "insert into schema_migrations (version, works_from) values (999, 999)")
    await refused(f"sqlite:///{file}", SchemaMismatch, "version 999.*upgrade ficha")
    _execute(file, "delete from schema_migrations where version = 999")
    async with shop(f"sqlite:///{file}") as app:
        after = await state(app)
        assert (after.accounts, after.entries) == (before.accounts, before.entries)

    connection = await asyncpg.connect(shared_database)
    try:
        await connection.execute("insert into ficha.migrations (version, works_from) values (999, 999)")
        await refused(shared_database, SchemaMismatch, "version 999.*upgrade ficha")
    finally:
        await connection.execute("delete from ficha.migrations where version = 999")
        await connection.close()


def _execute(file: Path, sql: str) -> None:
    db = apsw.Connection(str(file))
    try:
        db.execute(sql)
    finally:
        db.close()


# Files


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but long enough to be read as one " * 100)
    before = file.read_bytes()
    await refused(f"sqlite:///{file}", StoreError, "is not an SQLite database: check the path")
    assert file.read_bytes() == before


async def test_a_directory_in_place_of_a_file(tmp_path: Path) -> None:
    await refused(f"sqlite:///{tmp_path}", Unavailable, "check that its folder exists, that it is a file")


async def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    await refused(f"sqlite:///{tmp_path}/no/such/ficha.db", StoreError, "does not exist: make it first")
    assert os.listdir(tmp_path) == []


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """Somebody for whom permissions count, as they do not for root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield
    os.seteuid(user)


async def test_a_file_that_may_only_be_read(open_folder: Path, request: pytest.FixtureRequest) -> None:
    file = open_folder / "ficha.db"
    async with shop(f"sqlite:///{file}"):
        pass
    file.chmod(0o444)
    os.chmod(open_folder, 0o555)  # noqa: S103 (it takes away, for the test that needs it)
    request.getfixturevalue("ordinary_user")
    await refused(f"sqlite:///{file}", ReadOnly, "the file and its folder must be writable for this user")


async def test_a_file_that_may_not_be_looked_at(open_folder: Path, request: pytest.FixtureRequest) -> None:
    file = open_folder / "ficha.db"
    async with shop(f"sqlite:///{file}"):
        pass
    file.chmod(0o000)
    request.getfixturevalue("ordinary_user")
    await refused(f"sqlite:///{file}", Unavailable, re.escape(str(file)))


async def test_a_file_that_is_taken_away_while_in_use_is_not_written_to_any_more(tmp_path: Path) -> None:
    file = tmp_path / "ficha.db"
    app = Ficha(f"sqlite:///{file}", pools=[Pool("gpu")], sweep_by_itself=False)
    async with app:
        await app.open_account("ana", credits=5)
        file.rename(tmp_path / "away.db")
        with pytest.raises(StoreError, match=r"moved, deleted or replaced|is gone: put the file back"):
            await app.account("ana")
        (tmp_path / "away.db").rename(file)
        assert (await app.account("ana")).balance == 5
