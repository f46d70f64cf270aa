"""What the tests of the face share: the shop on a fresh database of each kind."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ficha import Ficha
from ficha.store.memory import MemoryStore
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from ficha.testing import ManualClock
from tests.support.postgres_databases import emptied
from tests.support.shop import World

KINDS = ["memory", "sqlite", "postgresql"]


@pytest.fixture(params=KINDS)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        if request.param == "memory":
            kept: list[MemoryStore] = []

            def shared(clock: ManualClock) -> MemoryStore:
                """One for all: a memory store is its own database."""
                kept[:] = kept or [MemoryStore(clock=clock)]
                return kept[0]

            yield World(request.param, shared, stack)
        elif request.param == "sqlite":
            path = tmp_path / "ficha.db"
            await SqliteStore(path).migrate()
            yield World(request.param, lambda clock: SqliteStore(path, clock=clock), stack)
        else:
            url = await stack.enter_async_context(emptied(request.getfixturevalue("shared_database")))
            yield World(request.param, lambda clock: PostgresStore(url, clock=clock), stack)


@pytest.fixture
async def app(world: World) -> Ficha:
    """The shop, with an account that has 1,000 credits and no limits."""
    app = await world.open()
    await app.open_account("ana", plan="open", credits=1_000)
    return app


@pytest.fixture(params=KINDS)
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The address of a fresh database of each kind, on the real clock."""
    if request.param == "memory":
        yield "memory:"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ficha.db'}"
    else:
        async with emptied(request.getfixturevalue("shared_database")) as address:
            yield address
