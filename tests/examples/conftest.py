"""What the tests of the examples share with those of the server."""

from collections.abc import Iterator

import pytest

from tests.server.conftest import name
from tests.support.postgres import Server
from tests.support.postgres_databases import migrated_database

__all__ = ["name"]


@pytest.fixture
def migrated(postgres_server: Server) -> Iterator[str]:
    """The address of a PostgreSQL database that is ready."""
    with migrated_database(postgres_server) as url:
        yield url
