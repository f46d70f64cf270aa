"""A drill: the primary is killed under load and its standby takes over, while all processes go on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from ficha import Ficha
from ficha.core.invariants import violations
from ficha.doctor import examine
from ficha.store.base import CommitUnknown, GetState, Unavailable
from ficha.store.postgres import PostgresStore, connections
from tests.chaos.faults import Fault
from tests.chaos.servers import FragileServer, fragile_server
from tests.chaos.standby import NAME, Standby, catch_up, cut_off, standby_of, url_of_both
from tests.chaos.supervisor import Load
from tests.chaos.trial import under
from tests.stores.postgres_setup import connected, opened, prepare, run, submit, until_activity
from tests.support.postgres import Server
from tests.support.waiting import until


@contextmanager
def pair(like: Server) -> Iterator[tuple[FragileServer, Standby]]:
    like.start()
    with fragile_server(like=like) as primary, standby_of(primary) as standby:
        yield primary, standby


async def wait_for(primary: FragileServer, standbys: str) -> None:
    """From now on commits on the primary wait for these standbys."""
    async with connected(primary.url()) as connection:
        await connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'")
        await connection.execute("SELECT pg_reload_conf()")
        follows = "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
        await until(lambda: connection.fetchval(follows if standbys == NAME else "SELECT true"))


def fail_over(primary: FragileServer, standby: Standby, *, lags: bool) -> Fault:
    """With `lags`, the standby does not hear of the last commits."""

    async def fault(load: Load, seconds: float) -> int:
        await load.progress(20, 20.0)
        if lags:
            await cut_off(standby)
            await load.progress(20, 20.0)
        await asyncio.to_thread(primary.stop_at_once)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(standby.promote)
        await load.progress(5, 30.0)
        return 1

    return fault


@pytest.mark.long
@pytest.mark.req("A6", "B4", "C1", "D1")
async def test_a_failover_to_a_synchronous_standby_loses_nothing_acknowledged(
    postgres_server: Server, tmp_path: Path
) -> None:
    with pair(postgres_server) as (primary, standby):
        await PostgresStore(primary.url()).migrate()
        await wait_for(primary, NAME)
        load = Load(url_of_both(primary, standby), tmp_path)
        _, verdict = await under(fail_over(primary, standby, lags=False), 0.5, load)
        assert verdict.wrong == []
        await _is_well(standby.url())


@pytest.mark.long
async def test_a_failover_to_an_asynchronous_standby_loses_the_last_commits_and_nothing_else(
    postgres_server: Server, tmp_path: Path
) -> None:
    with pair(postgres_server) as (primary, standby):
        await PostgresStore(primary.url()).migrate()
        load = Load(url_of_both(primary, standby), tmp_path)
        async with load:
            await fail_over(primary, standby, lags=True)(load, 0.5)
            verdict = await load.finish()
        assert any(sentence.startswith("LOST") for sentence in verdict.wrong), "commits were lost"
        await _is_well(standby.url())


async def _is_well(url: str) -> None:
    async with opened(url) as store:
        assert violations(await store.read(GetState())) == []
    assert [one for one in (await examine(Ficha(url))).findings if one.severity == "critical"] == []


async def test_what_no_standby_has_is_never_said_to_be_committed(postgres_server: Server) -> None:
    """The wait for a standby was broken off: the commit is there, and would be lost with the server."""
    postgres_server.start()
    with fragile_server(like=postgres_server) as primary:
        async with opened(primary.url(), committers=1) as store, connected(primary.url()) as connection:
            await prepare(store)
            await wait_for(primary, "nobody")
            committer = "0198c5e0-0000-7000-8000-000000000001"
            submitting = asyncio.create_task(run(store, submit(), committer=committer, number=1))
            await until_activity(connection, "wait_event = 'SyncRep'")
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            )
            with pytest.raises(CommitUnknown):
                await submitting
            asking = asyncio.create_task(store.committed(committer, 1))
            await until_activity(connection, "wait_event = 'SyncRep'")
            assert not asking.done()
            assert await connection.fetchval("SELECT count(*) FROM ficha.jobs") == 1
            await wait_for(primary, "")
            assert await asking


async def test_a_host_that_swallows_everything_keeps_nobody_from_the_next_one(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a machine that lost its power, or is behind a cut cable."""
    monkeypatch.setattr(connections, "HOST_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        database, folder = migrated_url.partition("@/")[2].split("?host=")
        for url in (
            f"postgresql://postgres@127.0.0.1:{port},{quote(folder, safe='')}/{database}?target_session_attrs=primary",
            f"postgresql://postgres@/{database}?host=127.0.0.1,{folder}&port={port},5432",
        ):
            async with opened(url) as store:
                await prepare(store, f"ana-{len(url)}")


async def test_a_url_names_several_hosts_and_leads_to_the_one_that_takes_writes(postgres_server: Server) -> None:
    with pair(postgres_server) as (primary, standby):
        await PostgresStore(primary.url()).migrate()
        await catch_up(primary, standby)
        first = f"postgresql://postgres@/postgres?host={standby.folder},{primary.folder}"
        for attribute in ("primary", "read-write"):
            url = f"{first}&target_session_attrs={attribute}&ficha_pool_size=2"
            async with Ficha(url, sweep_by_itself=False) as app:
                await app.open_account(f"ana-{attribute}", credits=5)
            codes = {one.code for one in (await examine(Ficha(url))).findings}
            assert not codes & {"SERVER_IS_STANDBY", "DATABASE_NOT_REACHED", "WRITES_FAIL"}
        found = {one.code for one in (await examine(Ficha(standby.url()))).findings}
        assert {"SERVER_IS_STANDBY", "WRITES_FAIL"} <= found
        with pytest.raises(Unavailable, match="None of the hosts match"):
            await PostgresStore(f"{standby.url()}&target_session_attrs=primary").open()
