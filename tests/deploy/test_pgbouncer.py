"""Through PgBouncer in transaction mode, with the settings of deploy/: migrations, a server, a worker, a batch and live
updates; and what happens where hints are listened for through it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest

from ficha import Ficha
from ficha.client import Client
from ficha.errors import Refused
from ficha.store import hint_check
from ficha.store.base import StoreError
from ficha.store.connect import store_for
from ficha.store.postgres import PostgresStore
from tests.chaos.servers import fragile_server
from tests.deploy.pooler import PASSWORD, Pooler, deployed_pooler
from tests.support import processes
from tests.support.postgres import Server
from tests.support.postgres_databases import migrated_database
from tests.support.processes import ForkedProcess
from tests.support.server_process import SECRET, Served, served
from tests.support.waiting import until, until_sync

POOL = 3
"""Few, so that connections change hands all the time."""


@pytest.fixture(scope="module")
def pooler(postgres_server: Server) -> Iterator[Pooler]:
    with migrated_database(postgres_server) as direct:
        asyncio.run(PostgresStore(direct).migrate(0))
        with deployed_pooler(direct, POOL) as pooler:
            migrated = processes.run(None, "migrate", "up", "--database", pooler.url)
            assert migrated.returncode == 0, migrated.stderr
            yield pooler


@contextmanager
def a_life(pooler: Pooler, workers: int = 1) -> Iterator[Served]:
    """A server and workers, each a process of its own, through the pooler; hints come past it."""
    environment = {"FICHA_LISTEN_URL": pooler.direct}
    with served(pooler.url, **environment) as server:
        words = ["worker", "--app", "tests.server.shop:app", "--database", pooler.url, "--log", "json"]
        variables = {**os.environ, **environment, "FICHA_FILES_URL": f"file://{server.files}"}
        running = [
            ForkedProcess("ficha.cli", words, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(workers)
        ]
        try:
            yield server
        finally:
            for process in running:
                process.terminate()
            for process in running:
                assert process.wait(60) == 0


async def backends(direct: str) -> int:
    """How many connections to the database come through the pooler: all but those that listen."""
    connection = await asyncpg.connect(direct)
    try:
        return await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid() "
            "AND query NOT LIKE 'LISTEN%' AND query <> 'SELECT 1'"
        )
    finally:
        await connection.close()


def test_a_job_and_a_batch_live_through_it_and_are_followed(pooler: Pooler) -> None:
    with a_life(pooler) as server, Client(server.url, server.account("ana", credits=1_000)) as client:
        receipt = client.submit("paint", {"prompt": "a lighthouse"})
        seen = [getattr(told, "kind", "job") for told in client.watch(receipt.job_id)]
        assert "completed" in seen, seen
        batch = client.submit_batch([("embed", {"text": f"{n}"}) for n in range(60)])
        done = until_sync(lambda: (found := client.batch(batch.batch_id)).by_status.get("completed") == 60 and found)
        assert done.total == 60
        assert client.account().balance == 1_000 - 3 - 2 * 60
        with Client(server.url, server.admin) as admin:
            assert admin.queue_depth("cpu").ready == 0
        assert asyncio.run(backends(pooler.direct)) <= POOL
    checked = processes.run(None, "verify", "--database", pooler.url)
    assert checked.returncode == 0, checked.stdout + checked.stderr


async def test_hints_past_the_pooler_arrive_and_through_it_the_log_says_that_they_do_not(
    pooler: Pooler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hint_check, "WAIT_S", 0.05)
    past = store_for(f"{pooler.url}&ficha_listen_url={quote(pooler.direct, safe='')}")
    monkeypatch.setattr(hint_check, "TRIES", 1_000)
    with caplog.at_level(logging.WARNING, "ficha.store"):
        await past.open()
        await past.listen(lambda _: None)
        await until(lambda: _check(past)._task.done(), what="its own hint arrives")
        await past.close()
        assert caplog.messages == []
        monkeypatch.setattr(hint_check, "TRIES", 2)
        through = store_for(pooler.url)
        await through.open()
        await through.listen(lambda _: None)
        await until(lambda: caplog.messages, what="the log says that hints do not arrive")
        await through.close()
    assert caplog.messages == [hint_check.NOT_HEARD]
    assert "FICHA_LISTEN_URL" in hint_check.NOT_HEARD


def _check(store: object) -> hint_check.HintCheck:
    assert isinstance(store, PostgresStore)
    [check] = [one for one in store._listeners if isinstance(one, hint_check.HintCheck)]
    return check


async def test_without_a_pooler_nothing_is_checked(pooler: Pooler) -> None:
    store = store_for(pooler.direct)
    await store.open()
    await store.listen(lambda _: None)
    assert isinstance(store, PostgresStore)
    assert [type(one) for one in store._listeners] == [type(store._listeners[0])]
    await store.close()


async def test_jobs_are_found_by_polls_where_no_hint_arrives(pooler: Pooler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ficha.worker.worker.POLL_S", 0.2)
    app, worker = Ficha(pooler.url), Ficha(pooler.url)

    @worker.tool(name="draw")
    @app.tool(name="draw")
    async def draw(job: object) -> int:
        return 1

    async with app, worker:
        await app.open_account("eva", plan="default")
        runs = asyncio.create_task(worker.run_worker())
        receipt = await app.submit("draw", account="eva")

        async def is_done() -> bool:
            return (await app.job(receipt.job_id)).status == "completed"

        await until(is_done)
        runs.cancel()
        await asyncio.gather(runs, return_exceptions=True)


def test_where_to_listen_is_set_by_the_url_or_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def listens_at(url: str) -> str:
        store = store_for(url)
        assert isinstance(store, PostgresStore)
        return store._connect_listener.args[0]  # type: ignore[attr-defined]

    pooled = "postgresql://ana@pooler/shop"
    assert listens_at(pooled) == pooled
    assert listens_at(f"{pooled}?ficha_pool_size=2") == pooled
    monkeypatch.setenv("FICHA_LISTEN_URL", "postgresql://ana@db/shop?sslmode=require&ficha_prepared=off")
    assert listens_at(pooled) == "postgresql://ana@db/shop?sslmode=require"
    assert (
        listens_at(f"{pooled}?ficha_listen_url=postgresql%3A%2F%2Fana%40other%2Fshop") == "postgresql://ana@other/shop"
    )
    secret = tmp_path / "url"
    secret.write_text("postgresql://ana@file/shop\n")
    monkeypatch.delenv("FICHA_LISTEN_URL")
    monkeypatch.setenv("FICHA_LISTEN_URL_FILE", str(secret))
    assert listens_at(pooled) == "postgresql://ana@file/shop"
    secret.unlink()
    with pytest.raises(StoreError, match="FICHA_LISTEN_URL_FILE"):
        store_for(pooled)


@pytest.mark.parametrize("bad", ["sqlite:///x.db", "db:5432", f"postgresql://ana:{PASSWORD}#@db/shop"])
def test_where_to_listen_must_be_postgresql(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FICHA_LISTEN_URL", bad)
    with pytest.raises(StoreError, match=r"^FICHA_LISTEN_URL cannot be read; write postgresql://") as refused:
        store_for("postgresql://ana@pooler/shop")
    assert PASSWORD not in str(refused.value)
    with pytest.raises(StoreError, match=r"^the option ficha_listen_url of the database URL cannot be read"):
        store_for(f"postgresql://ana@pooler/shop?ficha_listen_url={quote(bad, safe='')}")


@pytest.mark.long
@pytest.mark.timeout(240)
def test_the_pooler_dies_and_comes_back_and_nothing_is_lost(pooler: Pooler) -> None:
    jobs = 2_000
    with a_life(pooler, workers=3) as server, Client(server.url, server.account("bo", credits=10_000)) as client:
        batch = client.submit_batch([("anything", {"n": n}) for n in range(jobs)])
        for share in (0.2, 0.5):
            until_sync(lambda share=share: client.batch(batch.batch_id).by_status.get("completed", 0) > share * jobs)
            pooler.kill()
            pooler.start()
        until_sync(lambda: client.batch(batch.batch_id).by_status.get("completed") == jobs, within_s=120)
    checked = processes.run(None, "verify", "--database", pooler.url)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("way", ["url", "direct"])
def test_every_session_says_which_process_it_belongs_to(pooler: Pooler, way: str) -> None:
    """Through the pooler too: it passes the name on with each transaction."""
    variables = {**os.environ, "FICHA_LISTEN_URL": pooler.direct, "FICHA_SECRET": SECRET}
    named = ["--app", "tests.server.shop:app", "--database", getattr(pooler, way)]
    words = {"server": ["serve", *named, "--port", "0"], "worker": ["worker", *named, "--name", "gpu-a"]}
    running = {
        role: ForkedProcess("ficha.cli", told, env=variables, stderr=subprocess.DEVNULL) for role, told in words.items()
    }
    try:
        expected = {
            f"ficha-{role} {socket.gethostname()}:{process.pid}{' gpu-a' if role == 'worker' else ''}"[:63]
            for role, process in running.items()
        }
        until_sync(lambda: asyncio.run(session_names(pooler.direct)) >= expected, what=f"{expected}")
    finally:
        for process in running.values():
            process.kill()
            process.wait(60)


async def session_names(direct: str) -> set[str]:
    """The names of all sessions in the database but this one's."""
    connection = await asyncpg.connect(direct)
    try:
        rows = await connection.fetch(
            "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return {row["application_name"] for row in rows}
    finally:
        await connection.close()


async def test_its_own_figures_are_for_one_user_and_its_commands_for_another(pooler: Pooler) -> None:
    async def asked(user: str, command: str) -> str:
        url = pooler.url.replace("//postgres:", f"//{user}:").replace("@/ficha", "@/pgbouncer").split("&ficha_")[0]
        connection = await asyncpg.connect(url)
        try:
            return await connection.execute(command)
        finally:
            connection.terminate()

    for user in ("pgbouncer_stats", "pgbouncer_admin"):
        assert await asked(user, "SHOW POOLS") == "SHOW"
    assert await asked("pgbouncer_admin", "RELOAD") == "RELOAD"
    with pytest.raises(asyncpg.PostgresError, match="admin access needed"):
        await asked("pgbouncer_stats", "RELOAD")
    with pytest.raises(asyncpg.PostgresError, match="not allowed"):
        await asked("postgres", "SHOW POOLS")


async def test_a_restart_of_postgresql_stops_submits_for_seconds_only(postgres_server: Server) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(fragile_server(postgres_server))
        pooler = stack.enter_context(deployed_pooler(stack.enter_context(migrated_database(server)), POOL))
        async with Ficha(pooler.url, sweep_by_itself=False) as app:
            app.tool(name="draw")(_drawn)
            await app.open_account("ana", credits=1_000)
            await app.submit("draw", account="ana")
            await asyncio.to_thread(server.stop_at_once)
            # PgBouncer learns that there is nobody, and by default would not try again for 15 s.
            with pytest.raises((StoreError, Refused, TimeoutError)):
                async with asyncio.timeout(5):
                    await app.submit("draw", account="ana")
            await asyncio.to_thread(server.start_again)
            began = time.monotonic()

            async def is_taken() -> bool:
                try:
                    return bool(await app.submit("draw", account="ana"))
                except (StoreError, Refused):
                    return False

            await until(is_taken)
            assert time.monotonic() - began < 6


async def _drawn(job: object) -> int:
    return 1
