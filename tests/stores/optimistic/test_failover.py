"""Rows cached before a standby took over: on it, the same transaction number and place can stand for other rows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ficha.core import commands as c
from ficha.core.invariants import violations
from ficha.store import base as q
from ficha.store.base import CommitUnknown, Unavailable
from ficha.store.postgres import PostgresStore
from ficha.store.postgres.connections import SettledConnector
from tests.chaos.servers import FragileServer, fragile_server
from tests.chaos.standby import Standby, catch_up, cut_off, standby_of, url_of_both
from tests.stores.postgres_setup import connected, opened, prepare, run, sent, submit
from tests.support.postgres import Server

# A worker of autovacuum would use transaction numbers too.
CALM = {"autovacuum": "off"}


@asynccontextmanager
async def with_lost_commit(like: Server) -> AsyncIterator[tuple[PostgresStore, FragileServer, Standby]]:
    """A store on a primary, which has just committed what its standby never heard of."""
    with fragile_server(like, settings=CALM) as primary, standby_of(primary) as standby:
        async with opened(url_of_both(primary, standby), committers=1) as store:
            await prepare(store)
            await catch_up(primary, standby)
            await cut_off(standby)
            yield store, primary, standby


async def until_same_number(standby: Standby, version: str) -> None:
    """The next transaction on the standby gets the number of the one that it never heard of."""
    async with connected(standby.url()) as connection:
        number = int(version.partition("@")[0])
        while int(await connection.fetchval("SELECT pg_snapshot_xmax(pg_current_snapshot())::xid::text")) < number:
            await connection.execute("SELECT pg_current_xact_id()")


async def take_over(primary: FragileServer, standby: Standby, store: PostgresStore, way: str) -> None:
    """The store's next statement reaches the standby: on a new connection, or through a pooler that kept the old one
    for the store and made a new one behind it."""
    if way == "reconnected":
        await asyncio.to_thread(primary.stop_at_once)
    await asyncio.to_thread(standby.promote)
    if way == "pooled":
        connect = SettledConnector(standby.url(), schema="ficha", prepared=True, writes=True)
        for old in store._writers._idle:
            old.terminate()
        store._writers._idle[:] = [await connect()]


async def insist(store: PostgresStore, *group: c.Command) -> list[Any]:
    for _ in range(10):
        try:
            return await run(store, *group)
        except (Unavailable, CommitUnknown):
            continue
    raise AssertionError("the standby does not answer")


@pytest.mark.req("A1", "D1")
@pytest.mark.parametrize("way", ["reconnected", "pooled"])
async def test_a_balance_cached_before_a_failover_is_not_written_over_another_one(
    postgres_server: Server, way: str
) -> None:
    postgres_server.start()
    async with with_lost_commit(postgres_server) as (store, primary, standby):
        [lost], texts = await sent(store, submit())
        assert (lost.new_balance, texts) == (995, ["guarded"])
        cached = store._layer.cache.accounts["ana"]
        await take_over(primary, standby, store, way)
        async with connected(standby.url()) as connection, opened(standby.url(), optimistic=False) as other:
            await until_same_number(standby, cached.version)
            await run(other, c.Credit("ana", 100, "grant"))
            row = await connection.fetchrow("SELECT xmin::text, ctid::text, balance FROM ficha.accounts")
            number = cached.version.partition("@")[0]
            assert tuple(row) == (number, cached.position, 1_100), "the same pair, and another content"
            [submitted] = await insist(store, submit())
            assert submitted.new_balance == 1_095
            assert violations(await other.read(q.GetState())) == []
