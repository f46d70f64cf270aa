"""Fixtures for the tests of an application; put this into its conftest.py:

    pytest_plugins = ["ficha.testing.pytest_fixtures"]

    @pytest.fixture
    def ficha_app():
        return shop.app

They need pytest-asyncio, or anyio's own plugin. This is the only module of `ficha.testing` that imports pytest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ..app import Ficha
from .clock import ManualClock
from .sandbox import Sandbox

try:
    from pytest_asyncio import fixture as async_fixture
except ImportError:
    # anyio's plugin accepts pytest's own decorator.
    async_fixture = pytest.fixture  # type: ignore[assignment]


@pytest.fixture
def ficha_app() -> Ficha:
    """The application under test: every project has its own."""
    raise pytest.UsageError("define a fixture `ficha_app` that returns your Ficha(…), in conftest.py for example")


@async_fixture
async def ficha_sandbox(ficha_app: Ficha) -> AsyncIterator[Sandbox]:
    """The application, open on an empty memory store, with a clock that the test moves."""
    async with Sandbox(ficha_app) as sandbox:
        yield sandbox


@pytest.fixture
def ficha_clock(ficha_sandbox: Sandbox) -> ManualClock:
    """The application's clock."""
    return ficha_sandbox.clock
