"""Makes a run depend on its seed alone: clocks, random numbers and identifiers come from the simulation.

The code under test reads them through modules (`time`, `random`, `uuid`, `secrets`). For the length of a run, every
module of Ficha that the simulation uses sees stand-ins under those names. A module that bound one of their functions by
name would escape, and is refused.
"""

from __future__ import annotations

import functools
import random
import secrets
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

import ficha.app
import ficha.engine.engine
import ficha.ids
from ficha.engine.positions import Positions

from .loop import PROCESS, VirtualLoop

START_AT: Final = 1_767_323_045
"""2026-01-02 03:04:05 UTC, when every simulation begins."""

_REAL: Final = {"time": time, "random": random, "uuid": uuid, "secrets": secrets}
_OUTSIDE: Final = ("ficha.cli", "ficha.store.postgres", "ficha.store.sqlite", "ficha.testing")
"""Rooms that no simulated process enters."""
_INSIDE: Final = "ficha.store.postgres.optimistic"
"""What runs over the simulated database too."""


class Times:
    """Stands for the module `time`, as the process that asks sees it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.now + 1_000.0

    perf_counter = monotonic

    def monotonic_ns(self) -> int:
        return int(self.monotonic() * 1_000_000) * 1_000

    def time(self) -> float:
        return START_AT + self._loop.now + PROCESS.get(self._loop.outside).skew_s

    def time_ns(self) -> int:
        return int(self.time() * 1_000_000) * 1_000


class Uuids:
    """Stands for the module `uuid`."""

    UUID = uuid.UUID
    uuid5 = staticmethod(uuid.uuid5)

    def __init__(self, source: Random) -> None:
        self._source = source

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._source.getrandbits(128), version=4)


class Secrets:
    """Stands for the module `secrets`."""

    def __init__(self, source: Random) -> None:
        self.randbits = source.getrandbits
        self.token_bytes = source.randbytes


@contextmanager
def sandbox(loop: VirtualLoop, source: Random) -> Iterator[None]:
    """Within it, the code under test has only what the seed gives it."""
    times = Times(loop)
    stand_ins: dict[ModuleType, Any] = {
        time: times,
        random: source,
        uuid: Uuids(source),
        secrets: Secrets(source),
    }
    before: list[tuple[ModuleType, str, ModuleType]] = []
    for module in _modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, ModuleType) and value in stand_ins:
                before.append((module, name, value))
                setattr(module, name, stand_ins[value])
    try:
        with (
            patch.object(ficha.ids, "_last", 0),
            # The clock is a default argument there, and so was bound before.
            patch.object(ficha.engine.engine, "Positions", functools.partial(Positions, clock=times.monotonic)),
        ):
            yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _modules() -> list[ModuleType]:
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.split(".")[0] == "ficha" and (name.startswith(_INSIDE) or not name.startswith(_OUTSIDE))
    ]


def escapes() -> list[str]:
    """What a module has bound by name, and so would keep real in a simulation."""
    return [
        f"{module.__name__}.{name} is {real}.{name}; import the module {real} instead"
        for module in _modules()
        for name, value in vars(module).items()
        if callable(value) and not isinstance(value, type) and (real := getattr(value, "__module__", None)) in _REAL
    ]
