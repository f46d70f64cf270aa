"""What the races share: the processes that run them, and a fresh database of each kind to run them on."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ficha.store.postgres import PostgresStore
from tests.races.race_processes import RaceProcesses
from tests.support.postgres import new_database

pytest.register_assert_rewrite("tests.races.history")


@pytest.fixture(scope="session")
def processes() -> Iterator[RaceProcesses]:
    processes = RaceProcesses()
    yield processes
    processes.dismiss()


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The address of a fresh database; on PostgreSQL, one that is migrated."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ficha.db'}"
        return
    async with new_database(request.getfixturevalue("postgres_server")) as url:
        await PostgresStore(url).migrate()
        yield url
