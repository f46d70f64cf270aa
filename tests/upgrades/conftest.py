"""A database of a test's own, of each kind that has a schema."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from tests.support.postgres import Server, new_database
from tests.upgrades.later_release import AnyStore

Open = Callable[..., AnyStore]


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ficha.db'}"
    else:
        server: Server = request.getfixturevalue("postgres_server")
        async with new_database(server) as found:
            yield found


@pytest.fixture
def release(url: str) -> Open:
    """Makes a store of the present release, as each process of it has one."""
    if url.startswith("sqlite"):
        return lambda **options: SqliteStore(url.removeprefix("sqlite:///"), **options)
    return lambda **options: PostgresStore(url, **options)
