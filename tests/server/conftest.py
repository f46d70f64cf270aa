"""What the tests of the server share: one real server on each kind of database, for all tests of a run."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from ficha.store.base import Store
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from ficha.testing import ManualClock
from tests.server.clocked_site import Site, site_on
from tests.support.postgres import Server
from tests.support.postgres_databases import emptied, migrated_database
from tests.support.server_process import Served, served

KINDS = ["sqlite", "postgresql"]


@pytest.fixture(scope="session")
def server_on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(f"sqlite:///{tmp_path_factory.mktemp('served') / 'ficha.db'}") as server:
        yield server


@pytest.fixture(scope="session")
def server_on_postgresql(postgres_server: Server) -> Iterator[Served]:
    with migrated_database(postgres_server) as url, served(url) as server:
        yield server


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Served:
    found: Served = request.getfixturevalue(f"server_on_{request.param}")
    return found


@pytest.fixture
def name() -> str:
    """A name for an account that no other test has."""
    return f"ana-{uuid4().hex[:12]}"


@pytest.fixture(params=KINDS)
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    """A served application by a clock of the test's own."""
    clock = ManualClock()
    async with AsyncExitStack() as stack:
        store: Store
        if request.param == "sqlite":
            store = SqliteStore(tmp_path / "ficha.db", clock=clock)
            await store.migrate()
        else:
            url = await stack.enter_async_context(emptied(request.getfixturevalue("shared_database")))
            store = PostgresStore(url, clock=clock)
        yield await stack.enter_async_context(site_on(store, clock))
