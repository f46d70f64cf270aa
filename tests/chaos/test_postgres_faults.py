"""PostgreSQL that crashes, a network that lies, and strangers who hold locks and connections."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from ficha.store.base import StoreError
from ficha.store.connect import store_for
from ficha.store.postgres import PostgresStore
from tests.chaos import faults
from tests.chaos import postgres_faults as broken
from tests.chaos.actors import Habits
from tests.chaos.pgbouncer import pooled
from tests.chaos.proxy import bad_network
from tests.chaos.servers import FragileServer, fragile_server
from tests.chaos.supervisor import Load
from tests.chaos.trial import under
from tests.stores.postgres_setup import jobs, leased, prepare, run, submit
from tests.support.postgres import Server, new_database


@pytest.fixture
async def url(postgres_server: Server) -> AsyncIterator[str]:
    async with new_database(postgres_server) as url:
        await PostgresStore(url).migrate()
        yield url


@pytest.fixture(scope="module")
def server(postgres_server: Server) -> Iterator[FragileServer]:
    with fragile_server(like=postgres_server) as server:
        yield server


@pytest.fixture
async def fragile_url(server: FragileServer) -> str:
    await PostgresStore(server.url()).migrate(0)
    await PostgresStore(server.url()).migrate()
    return server.url()


@pytest.mark.req("B4", "B10", "D1")
async def test_a_server_that_crashes_under_load_loses_nothing_acknowledged(
    server: FragileServer, fragile_url: str, tmp_path: Path
) -> None:
    load = Load(fragile_url, tmp_path)
    struck, verdict = await under(broken.crash_the_server(server, every_s=0.5), 1.5, load)
    assert verdict.wrong == []
    assert struck >= 2


@pytest.mark.long
async def test_a_server_whose_disk_is_full_goes_down_and_loses_nothing_once_there_is_space(
    postgres_server: Server, tmp_path: Path
) -> None:
    """On a small file system of its own; where none can be mounted, files that may not grow."""
    with fragile_server(like=postgres_server, disk_mib=160) as server:
        await PostgresStore(server.url()).migrate()
        _, verdict = await under(broken.run_out_of_space(server), 0.0, Load(server.url(), tmp_path))
    assert verdict.wrong == []


@pytest.mark.long
async def test_connections_that_are_all_taken_delay_and_break_nothing(
    server: FragileServer, fragile_url: str, tmp_path: Path
) -> None:
    struck, verdict = await under(broken.take_all_connections, 1.2, Load(fragile_url, tmp_path))
    assert verdict.wrong == []
    assert struck > 0, "the limit was never reached"


@pytest.mark.long
async def test_connections_ended_all_the_time_stop_no_process(url: str, tmp_path: Path) -> None:
    struck, verdict = await under(broken.terminate_backends, 1.2, Load(url, tmp_path))
    assert verdict.wrong == []
    assert struck >= 10


@pytest.mark.req("A6", "C1", "D2")
async def test_commits_whose_answer_is_cut_off_are_neither_lost_nor_done_twice(url: str, tmp_path: Path) -> None:
    async with bad_network(url) as (network, detour):
        struck, verdict = await under(broken.cut_commits(network), 1.2, Load(detour, tmp_path, direct=url))
    assert verdict.wrong == []
    assert struck >= 5


@pytest.mark.long
@pytest.mark.req("B4")
async def test_a_slow_silent_and_breaking_network_loses_nothing(url: str, tmp_path: Path) -> None:
    async with bad_network(url) as (network, detour):
        _, verdict = await under(broken.spoil_the_network(network), 0.0, Load(detour, tmp_path, direct=url))
    assert verdict.wrong == []


@pytest.mark.long
async def test_locks_held_by_strangers_delay_and_break_nothing(url: str, tmp_path: Path) -> None:
    struck, verdict = await under(broken.lock_from_outside(0.4, 1.2), 0.0, Load(url, tmp_path))
    assert verdict.wrong == []
    assert struck == 2


@pytest.mark.long
async def test_without_hints_between_processes_work_goes_on_by_looking(url: str, tmp_path: Path) -> None:
    load = Load(url, tmp_path, habits=Habits(hears=False))
    _, verdict = await under(faults.kill_at_random, 0.7, load)
    assert verdict.wrong == []


@pytest.mark.long
async def test_through_a_pooler_in_transaction_mode_all_is_the_same(url: str, tmp_path: Path) -> None:
    with pooled(url) as detour:
        _, verdict = await under(faults.kill_at_random, 1.0, Load(detour, tmp_path, direct=url))
    assert verdict.wrong == []


@pytest.mark.long
@pytest.mark.req("B4")
async def test_clocks_an_hour_apart_leave_no_lost_job_behind(url: str, tmp_path: Path) -> None:
    load = Load(url, tmp_path)
    load.set_clocks_apart(3_600)
    _, verdict = await under(faults.kill_at_random, 0.7, load)
    assert verdict.wrong == []


@pytest.mark.req("B4", "C1")
async def test_clocks_an_hour_apart_end_no_lease_early(url: str, tmp_path: Path) -> None:
    # Long enough for a busy machine: none may end for another reason than the clocks.
    load = Load(url, tmp_path, habits=Habits(lease_s=20.0))
    load.set_clocks_apart(3_600)
    _, verdict = await under(faults.nothing, 1.0, load)
    assert verdict.wrong == []
    assert verdict.recovered == 0, "a lease ended early"


# Poolers, and the options of the URL for them


async def test_a_pooler_that_takes_no_settings_gets_none(url: str) -> None:
    """Even if nobody said that there is one: then commit groups take locks and bring their settings along."""
    with pooled(url) as pooled_url:
        store = PostgresStore(pooled_url.partition("&ficha_")[0])
        for connections, connect in (
            (store._writers, store._connect_writer),
            (store._readers, store._connect_reader),
        ):
            async with connections.take() as connection:
                assert await connection.fetchval("SHOW enable_seqscan") == "on"
            assert not connect.is_settled
        await store.close()
        direct = PostgresStore(url)
        for connections in (direct._writers, direct._readers):
            async with connections.take() as connection:
                assert await connection.fetchval("SHOW enable_seqscan") == "off"
        await direct.close()


async def test_two_schemas_share_the_connections_of_a_pooler(url: str) -> None:
    """What is one's own is in the statements: a path that was set would be the other's too."""
    with pooled(url) as pooled_url:
        one, other = store_for(pooled_url), store_for(f"{pooled_url}&ficha_schema=queue")
        assert isinstance(one, PostgresStore)
        assert isinstance(other, PostgresStore)
        try:
            await other.migrate()
            for store in (one, other):
                await store.open()
                await prepare(store)
            for _ in range(3):
                await leased(one)
            await leased(other)
            await run(one, submit())
            assert (len(await jobs(one)), len(await jobs(other))) == (4, 1)
        finally:
            await one.close()
            await other.close()


async def test_options_in_the_url_reach_the_store_and_not_the_database(url: str) -> None:
    listening = quote(url, safe="")
    store = store_for(f"{url}&ficha_prepared=off&ficha_committers=2&ficha_pool_size=1&ficha_listen_url={listening}")
    assert store.committers == 2
    await store.open()
    assert isinstance(store, PostgresStore)
    async with store._readers.take() as connection:
        assert connection._config.statement_cache_size == 0
    await store.close()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("ficha_prepared=no", "on or off"),
        ("ficha_committers=0", "a number from 1"),
        ("ficha_pool_size=many", "a number from 1"),
        ("ficha_listen_url=", "is empty"),
        ("ficha_prepare=off", "unknown option"),
    ],
)
def test_an_option_that_cannot_be_is_refused(option: str, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        store_for(f"postgresql://ana@localhost/shop?sslmode=require&{option}")
