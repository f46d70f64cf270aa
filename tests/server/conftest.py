"""What the tests of the server share: one real server on each kind of database, for all tests of a run."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.postgres import Server
from tests.support.postgres_databases import migrated_database
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
