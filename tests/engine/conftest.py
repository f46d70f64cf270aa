"""What the tests of the engine share: fresh databases of each kind on a clock that is moved by hand."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ficha.store.memory import MemoryStore
from ficha.testing import ManualClock
from tests.engine.engine_setup import StoreSetup
from tests.engine.position_setup import Seconds
from tests.support.postgres_databases import emptied


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
async def memory(clock: ManualClock) -> AsyncIterator[StoreSetup]:
    """Engines on a memory store, where the store's kind does not matter."""
    async with AsyncExitStack() as stack:
        yield StoreSetup(MemoryStore(clock=clock), clock, stack)


@pytest.fixture
async def sqlite(clock: ManualClock, tmp_path: Path) -> AsyncIterator[StoreSetup]:
    """Engines on an SQLite file."""
    async with AsyncExitStack() as stack:
        yield await StoreSetup.on_sqlite(tmp_path / "ficha.db", clock, stack)


@pytest.fixture
async def postgresql(clock: ManualClock, shared_database: str) -> AsyncIterator[StoreSetup]:
    """Engines on a PostgreSQL database."""
    async with emptied(shared_database) as url, AsyncExitStack() as stack:
        yield await StoreSetup.on_postgresql(url, clock, stack)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def setup(request: pytest.FixtureRequest) -> StoreSetup:
    """Engines on a fresh database of each kind."""
    return request.getfixturevalue(request.param)
