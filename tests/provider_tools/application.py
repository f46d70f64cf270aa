"""An application with a provider tool, whose process kills itself at a point that the environment names, once."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from ficha import Ficha
from ficha.core.commands import AcceptedByProvider
from ficha.providers import ProviderCall, ProviderHttp, ProviderStatus
from ficha.worker import collector
from tests.provider_tools.loopback import LoopbackProvider, studio

POINTS = ("called", "requested", "accepted", "held", "asked", "copied", "finished")
DIE_AT, MARK, PROVIDER = "PROVIDER_TEST_DIE_AT", "PROVIDER_TEST_MARK", "PROVIDER_TEST_URL"


def reach(point: str) -> None:
    mark = Path(os.environ[MARK])
    if os.environ.get(DIE_AT) == point and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Mortal(LoopbackProvider):
    async def start(self, http: ProviderHttp, call: ProviderCall, **options: Any) -> str:
        reach("called")
        ref = await super().start(http, call, **options)
        reach("requested")
        return ref

    async def status(self, http: ProviderHttp, ref: str) -> ProviderStatus:
        found = await super().status(http, ref)
        reach("asked")
        return found


class MortalFicha(Ficha):
    async def end_many(self, ends: Any) -> Any:
        given = list(ends)
        found = await super().end_many(given)
        if any(isinstance(ending, AcceptedByProvider) for _, ending in given):
            reach("accepted")
        return found

    async def hold_poll(self, *args: Any, **options: Any) -> Any:
        found = await super().hold_poll(*args, **options)
        reach("held")
        return found

    async def save_result(self, *args: Any) -> Any:
        found = await super().save_result(*args)
        reach("copied")
        return found

    async def finish_awaiting(self, *args: Any) -> Any:
        found = await super().finish_awaiting(*args)
        reach("finished")
        return found


def build(url: str | None = None) -> Ficha:
    provider = Mortal(os.environ[PROVIDER], poll_s=0.1)
    return studio(url or "memory:", provider, kind=MortalFicha, lease_s=0.6, heartbeat_s=0.1, max_recoveries=50)


def __getattr__(name: str) -> Any:
    if name == "app":
        collector.HOLD_S = 0.4
        return build(os.environ.get("FICHA_DATABASE_URL"))
    raise AttributeError(name)
