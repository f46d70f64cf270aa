"""An application that a server process and a worker process run: a tool with steps, one of a provider, and a hook."""

from __future__ import annotations

import logging
import os
from typing import Any

from ficha import Ficha, JobContext, Plan
from ficha.providers import ProviderCall
from tests.provider_tools.loopback import LoopbackProvider

log = logging.getLogger("theirs")


def build() -> Ficha:
    app = Ficha(
        plans=[Plan("open")],
        lease_s=3,
        heartbeat_s=0.5,
        sweep_s=0.1,
        allow_addresses=["127.0.0.1"],
    )
    provider = LoopbackProvider(os.environ["TRACING_TEST_PROVIDER"], poll_s=0.1)

    @app.tool(attempts=2, backoff=0.01)
    async def paint(job: JobContext, text: str) -> str:
        log.warning("their own line")
        await job.step("sketch", sketch, text)
        if job.attempt == 1:
            raise ValueError("the brush broke")
        await job.log("painted")
        return text.upper()

    @app.provider_tool(provider, cost=1)
    async def draw(job: JobContext, text: str) -> ProviderCall:
        return ProviderCall("painter", {"prompt": text})

    @app.on("completed")
    async def noted(job: Any) -> None:
        log.warning("the hook's own line")

    return app


def sketch(text: str) -> str:
    log.warning("a step's own line")
    return text[:1]


def __getattr__(name: str) -> Any:
    if name == "app":
        return build()
    raise AttributeError(name)
