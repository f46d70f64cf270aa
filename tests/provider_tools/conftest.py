"""What the tests of provider tools share: fresh databases, and a provider on the loopback."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ficha import Ficha
from tests.app.conftest import url
from tests.provider_tools import paid_starts
from tests.provider_tools.loopback import LoopbackServer
from tests.support.postgres_databases import emptied
from tests.support.provider_simulator import Receiver, Simulated, receiver, simulated

__all__ = ["server", "url"]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where results are copied to."""
    monkeypatch.setenv("FICHA_FILES_URL", f"file:{tmp_path / 'files'}")


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with LoopbackServer() as server:
        yield server


@pytest.fixture(scope="module")
def _simulator() -> Iterator[Simulated]:
    with simulated() as simulator:
        yield simulator


@pytest.fixture
def simulator(_simulator: Simulated, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulated]:
    monkeypatch.setenv(paid_starts.SIMULATOR, _simulator.url)
    yield _simulator
    _simulator.reset()


@pytest.fixture
def callbacks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiver() as listening:
        monkeypatch.setenv(paid_starts.PUBLIC, listening.url)
        yield listening


@pytest.fixture(params=["sqlite", "postgresql"])
async def paid(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    simulator: Simulated,
    callbacks: Receiver,
) -> AsyncIterator[Ficha]:
    """The application without a worker, in the database of the worker processes."""

    async def opened(url: str) -> AsyncIterator[Ficha]:
        monkeypatch.setenv("FICHA_DATABASE_URL", url)
        async with paid_starts.build(url) as app:
            await app.open_account("ana", credits=100)
            yield app
            assert await app.verify() == []

    if request.param == "sqlite":
        async for app in opened(f"sqlite:///{tmp_path / 'ficha.db'}"):
            yield app
    else:
        async with emptied(request.getfixturevalue("shared_database")) as url:
            async for app in opened(url):
                yield app
