"""What the tests under faults share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ficha.store.postgres import PostgresStore
from tests.support.postgres import new_database


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The address of a fresh database; on PostgreSQL, one that is migrated."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ficha.db'}"
        return
    async with new_database(request.getfixturevalue("postgres_server")) as url:
        await PostgresStore(url).migrate()
        yield url
