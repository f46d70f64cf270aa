"""A worker that is cancelled a second time while it stops leaves nothing running beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ficha import Ficha, JobView
from ficha.providers import ProviderCall, ProviderHttp, ProviderStatus
from ficha.testing import ScriptedProvider
from ficha.worker import JobContext
from tests.worker.in_process import app_on


class _Held:
    """Something that never ends by itself."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.has_ended = asyncio.Event()

    async def hang(self) -> Any:
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.has_ended.set()


class _HangingProvider(ScriptedProvider):
    def __init__(self, held: _Held) -> None:
        super().__init__(poll_s=0.001)
        self._held = held

    async def status(self, http: ProviderHttp, ref: str) -> ProviderStatus:
        status: ProviderStatus = await self._held.hang()
        return status


class _HangingOutbound:
    def __init__(self, held: _Held) -> None:
        self._held = held

    async def check(self, url: str) -> None:
        """Any will do."""

    @asynccontextmanager
    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield await self._held.hang()

    async def close(self) -> None:
        """Nothing is open."""


async def _hook(held: _Held) -> Ficha:
    app = app_on()

    @app.on("completed")
    async def told(job: JobView) -> None:
        await held.hang()

    @app.tool
    async def work(job: JobContext) -> None:
        pass

    return await app.open()


async def _collection(held: _Held) -> Ficha:
    app = app_on()

    @app.provider_tool(_HangingProvider(held))
    async def work(job: JobContext) -> ProviderCall:
        return ProviderCall("model", {})

    return await app.open()


async def _message(held: _Held) -> Ficha:
    app = app_on(webhooks=True)

    @app.tool
    async def work(job: JobContext) -> None:
        pass

    app._outbound = _HangingOutbound(held)  # type: ignore[assignment]
    await app.open()
    await app.add_webhook("https://receiver.example/")
    return app


@pytest.mark.parametrize("made", [_hook, _collection, _message])
async def test_what_runs_beside_the_jobs_ends_with_a_worker_that_is_cancelled_twice(made: Any) -> None:
    held = _Held()
    app: Ficha = await made(held)
    try:
        await app.open_account("ana", credits=1)
        await app.submit("work", {}, account="ana")
        worker = asyncio.create_task(app.run_worker())
        async with asyncio.timeout(20):
            await held.has_begun.wait()
            while not worker.done():
                worker.cancel()
                await asyncio.sleep(0.01)
            await held.has_ended.wait()
    finally:
        await app.close()
