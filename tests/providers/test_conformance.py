"""The built-in providers pass the suite that every provider must pass, against the simulator."""

import asyncio
from collections.abc import Mapping

import pytest

from ficha.providers import ReceivedCallback
from ficha.testing import ProviderConformance, ProviderTrial
from tests.providers.kinds import KINDS, Kind, as_callback, task_of
from tests.support.provider_simulator import Receiver, Simulated


class SimulatedTrial(ProviderTrial):
    """Work goes on until it is told how it ends."""

    def __init__(self, kind: Kind, simulator: Simulated, callbacks: Receiver, picture: str) -> None:
        self.provider = kind.of(simulator)
        self.call = kind.call(picture)
        self.tells_time = kind.name in ("replicate", "fal")
        self._simulator = simulator
        self._callbacks = callbacks
        simulator.task(hold=True, times=0)

    async def succeed(self, ref: str) -> None:
        self._simulator.finish(task_of(ref))
        self._simulator.until_over(task_of(ref))

    async def fail(self, ref: str, words: str) -> None:
        self._simulator.finish(task_of(ref), fail=words)
        self._simulator.until_over(task_of(ref))

    async def begun(self) -> int:
        return len(self._simulator.tasks())

    async def is_cancelled(self, ref: str) -> bool:
        return self._simulator.until_over(task_of(ref)) == "cancelled"

    async def answer_next(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self._simulator.answer("given", status=status, body=body.decode(), headers=dict(headers))

    async def callback(self, ref: str) -> ReceivedCallback | None:
        url = f"{self._callbacks.url}/t"
        await asyncio.to_thread(self._simulator.callback, task_of(ref), url=url)
        return as_callback(self._callbacks.received[-1])


class TestBuiltIn(ProviderConformance):
    @pytest.fixture(params=KINDS)
    def trial(
        self, request: pytest.FixtureRequest, simulator: Simulated, callbacks: Receiver, picture: str
    ) -> SimulatedTrial:
        return SimulatedTrial(KINDS[request.param], simulator, callbacks, picture)
