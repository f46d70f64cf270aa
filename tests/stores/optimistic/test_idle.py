"""What a worker that has nothing to do asks of PostgreSQL, statement by statement."""

from typing import Any

import asyncpg
import pytest

from ficha.store.postgres import PostgresStore
from tests.stores.test_idle import MOST_PER_S, idle, per_s


async def test_an_idle_worker_asks_little_of_postgresql(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    connect = asyncpg.connect

    async def connect_heard(*args: Any, **options: Any) -> Any:
        connection = await connect(*args, **options)
        connection.add_query_logger(lambda logged: texts.append(logged.query))
        return connection

    monkeypatch.setattr(asyncpg, "connect", connect_heard)
    async with idle(PostgresStore(migrated_url)) as engine:
        assert await per_s(engine, texts, is_heard=False) < MOST_PER_S
