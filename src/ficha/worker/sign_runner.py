"""Shows the worker's signs: which secret it has, and whether its machine's clock is wrong."""

from __future__ import annotations

import socket
from collections.abc import Callable

from ..engine.engine import Engine
from ..engine.process_signs import ProcessSigns
from .due_runner import DueRunner


class SignRunner(DueRunner):
    """Runs beside a worker's jobs; a burst shows no signs."""

    what = "signs"

    def __init__(self, engine: Callable[[], Engine], fingerprint: str | None) -> None:
        super().__init__()
        self._engine = engine
        self._fingerprint = fingerprint

    async def run(self) -> None:
        await ProcessSigns(self._engine(), socket.gethostname(), self._fingerprint).run()

    async def drain(self, within_s: float = 0.0) -> int:
        return 0
