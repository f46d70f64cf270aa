"""Engines whose looks at the queue follow a clock that the test moves, and where jobs stand for them."""

from __future__ import annotations

from ficha.engine.engine import Engine
from ficha.engine.positions import Positions
from tests.engine.engine_setup import StoreSetup
from tests.engine.instrumented_store import InstrumentedStore


class Seconds:
    """The process's own clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def looking(setup: StoreSetup, store: InstrumentedStore, seconds: Seconds) -> Engine:
    """An engine whose looks at the queue follow the test's own clock."""
    engine = await setup.engine(store)
    engine.positions = Positions(store, seconds)
    return engine


async def places(engine: Engine, *jobs: str) -> list[int | None]:
    found = [await engine.positions.of(job) for job in jobs]
    return [None if standing is None else standing.position for standing in found]


def looks(store: InstrumentedStore) -> int:
    return store.reads["GetWaiting"]
