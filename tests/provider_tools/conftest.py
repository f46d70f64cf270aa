"""What the tests of provider tools share: fresh databases, and a provider on the loopback."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.conftest import url
from tests.provider_tools.loopback import LoopbackServer

__all__ = ["server", "url"]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where results are copied to."""
    monkeypatch.setenv("FICHA_FILES_URL", f"file:{tmp_path / 'files'}")


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with LoopbackServer() as server:
        yield server
