"""A SQLite database of a test's own, and commit groups on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.stores.sqlite_setup import StoreSetup, opened


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ficha.db")


@pytest.fixture
async def setup(path: str) -> AsyncIterator[StoreSetup]:
    async with opened(path) as setup:
        yield setup
