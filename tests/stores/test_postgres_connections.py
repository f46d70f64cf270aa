"""Connections that are shared: who gets one, and what becomes of it afterwards."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ficha.core.needs import Needs
from ficha.core.snapshot import Changes
from ficha.store.base import Unavailable
from ficha.store.postgres import PostgresStore
from ficha.store.postgres.connections import Connection, Connections, connector, speaking
from ficha.store.postgres.dialect import Layout


@pytest.fixture
async def one(migrated_url: str) -> AsyncIterator[Connections]:
    """Connections of which there is only one at a time."""
    connections = Connections(connector(migrated_url, schema="ficha", prepared=True), 1)
    yield connections
    await connections.close()


async def backend(connections: Connections) -> int:
    async with connections.take() as connection:
        return int(await connection.fetchval("SELECT pg_backend_pid()"))


async def test_whoever_waits_longest_gets_the_next_connection(one: Connections) -> None:
    served: list[int] = []

    async def ask(number: int) -> None:
        async with one.take():
            served.append(number)

    async with one.take():
        waiting = [asyncio.create_task(ask(number)) for number in range(3)]
        await asyncio.sleep(0)
        assert served == []
    await asyncio.gather(*waiting)
    assert served == [0, 1, 2]


async def test_whoever_stops_waiting_keeps_nobody_from_a_connection(one: Connections) -> None:
    async with one.take():
        gone, called, waiting = (asyncio.create_task(backend(one)) for _ in range(3))
        await asyncio.sleep(0)
        gone.cancel()
    # The second one has its turn by now, and does not take it any more.
    called.cancel()
    assert isinstance(await waiting, int)
    assert gone.cancelled()
    assert called.cancelled()
    assert await backend(one) == await backend(one)


async def test_a_connection_in_the_middle_of_something_is_not_handed_on(one: Connections) -> None:
    first = await backend(one)
    assert await backend(one) == first
    async with one.take() as connection:
        await connection.execute("BEGIN")
    second = await backend(one)
    assert second != first
    with pytest.raises(asyncio.CancelledError):
        async with one.take():
            raise asyncio.CancelledError
    assert await backend(one) not in (first, second)


async def test_a_database_that_does_not_answer_is_given_up(migrated_url: str) -> None:
    connections = Connections(connector(migrated_url, schema="ficha", prepared=True, timeout_s=None), 2, patience_s=0.2)
    backends: list[int] = []

    async def ask_in_vain() -> None:
        async with connections.take() as connection:
            backends.extend((connection.get_server_pid(), await backend(connections)))
            with speaking(connection):
                await connection.execute("SELECT pg_sleep(3600)")

    with pytest.raises(Unavailable, match="connection was closed"):
        await ask_in_vain()
    # What broke one connection has most likely broken all.
    assert await backend(connections) not in backends
    await connections.close()


async def test_what_cannot_be_connected_frees_its_turn() -> None:
    connections = Connections(connector("postgresql://127.0.0.1:1/none", schema="ficha", prepared=True), 1)
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot be reached"):
            await backend(connections)
    await connections.close()
    with pytest.raises(Unavailable, match="the store is closed"):
        await backend(connections)


async def test_a_connection_whose_first_question_is_interrupted_is_closed(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(migrated_url)
    await store.open()
    interrupted: list[Connection] = []

    async def read(self: Layout, connection: Connection) -> None:
        interrupted.append(connection)
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(Layout, "read", read)
        with pytest.raises(asyncio.CancelledError):
            await store.transact("c", 1, Needs(), lambda snapshot: (Changes(), []))
    assert [connection.is_closed() for connection in interrupted] == [True]
    await store.close()
