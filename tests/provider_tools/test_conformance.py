"""The conformance suite of providers, on the two that the tests have; and faults that it finds."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from ficha.providers import ProviderCall, ProviderFailed, ProviderHttp, ProviderStatus, ReceivedCallback
from ficha.testing import ProviderConformance, ProviderTrial
from tests.provider_tools.loopback import LoopbackProvider, LoopbackServer, SilentProvider
from tests.support.receiver import Reply


class LoopbackTrial(ProviderTrial):
    def __init__(self, server: LoopbackServer, kind: type[LoopbackProvider]) -> None:
        self.server = server
        self.provider = kind(server.url())
        self.call = ProviderCall("painter", {"prompt": "a cat"})

    async def succeed(self, ref: str) -> None:
        self.server.succeed(ref, {"picture": 1}, [{"url": "https://p.example/x.png"}])

    async def fail(self, ref: str, words: str) -> None:
        self.server.fail(ref, words)

    async def begun(self) -> int:
        return len(self.server.works)

    async def is_cancelled(self, ref: str) -> bool:
        return ref in self.server.cancelled

    async def answer_next(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        for what in ("start", "work"):
            self.server.faults[what] = [Reply(status, tuple(headers.items()), body)]

    async def callback(self, ref: str) -> ReceivedCallback | None:
        headers, body = self.server.callback(ref)
        return ReceivedCallback({name.lower(): value for name, value in headers.items()}, body, time.time())


class TestLoopback(ProviderConformance):
    @pytest.fixture(params=[LoopbackProvider, SilentProvider])
    async def trial(self, request: pytest.FixtureRequest) -> AsyncIterator[ProviderTrial]:
        async with LoopbackServer() as server:
            yield LoopbackTrial(server, request.param)


class Forgetful(LoopbackProvider):
    """Says that it takes keys, and sends another each time."""

    calls = 0

    async def start(self, http: ProviderHttp, call: ProviderCall, *, key: str, **options: Any) -> str:
        self.calls += 1
        return await super().start(http, call, key=f"{key}-{self.calls}", **options)


class Swallowing(LoopbackProvider):
    """Takes an error for an answer."""

    async def status(self, http: ProviderHttp, ref: str) -> ProviderStatus:
        try:
            return await super().status(http, ref)
        except Exception:
            return ProviderFailed("something went wrong")


class Deaf(LoopbackProvider):
    """Does not tell the server."""

    async def cancel(self, http: ProviderHttp, ref: str) -> None:
        return None


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (Forgetful, "test_the_same_key_begins_the_work_once_if_the_provider_takes_keys"),
        (Swallowing, "test_what_is_broken_counts_as_a_failure_of_the_provider_and_is_not_final"),
        (Deaf, "test_cancelling_tells_the_provider_and_may_be_repeated"),
    ],
)
async def test_a_provider_with_a_fault_is_found_out(kind: type[LoopbackProvider], test: str) -> None:
    async with LoopbackServer() as server:
        with pytest.raises(AssertionError):
            await getattr(ProviderConformance(), test)(LoopbackTrial(server, kind))
