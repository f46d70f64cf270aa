"""A SQLite database of a test's own, and batches on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.stores.sqlite_setup import Bench, opened


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ficha.db")


@pytest.fixture
async def bench(path: str) -> AsyncIterator[Bench]:
    async with opened(path) as bench:
        yield bench
