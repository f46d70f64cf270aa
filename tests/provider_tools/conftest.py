"""What the tests of provider tools share: fresh databases, and a provider on the loopback."""

from collections.abc import AsyncIterator

import pytest

from tests.app.conftest import url
from tests.provider_tools.loopback import LoopbackServer

__all__ = ["server", "url"]


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with LoopbackServer() as server:
        yield server
