"""A worker's registration: reports that it is alive, and at the end that it has stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from .. import validation as arg
from ..core.commands import RegisterWorker
from ..operations import LeaseOperations
from ..version import build

log = logging.getLogger("ficha.worker")

REGISTER_TIMEOUT_S: Final = 2.0
LAST_TIMEOUT_S: Final = 0.5
"""The longest that a registration (`REGISTER_TIMEOUT_S`) and the last one (`LAST_TIMEOUT_S`) may take. They are short
because registrations only inform people."""


def worker_name(given: str | None = None) -> str:
    """The given name, else `WORKER_ID`, else the host's name with the process id."""
    return given or os.environ.get("WORKER_ID") or f"{socket.gethostname()}-{os.getpid()}"


class Registration:
    """Registers the worker at each call. If a call fails, the next one makes up for it.

    problem: what keeps the worker from its work, if anything does.
    """

    def __init__(
        self,
        name: str,
        pools: tuple[str, ...],
        concurrency: int,
        heartbeat_s: float,
        problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._problem = problem
        heartbeat_ms = max(1, round(heartbeat_s * 1_000))
        self._command = RegisterWorker(
            name, socket.gethostname(), os.getpid(), pools, concurrency, build(), heartbeat_ms
        )

    @asynccontextmanager
    async def deregistering(self, operations: LeaseOperations) -> AsyncIterator[None]:
        """Reports at the end that the worker has stopped. The renewer calls `register` meanwhile."""
        try:
            yield
        finally:
            await self.register(operations, stops=True)

    async def register(self, operations: LeaseOperations, *, stops: bool = False) -> None:
        try:
            async with asyncio.timeout(LAST_TIMEOUT_S if stops else REGISTER_TIMEOUT_S):
                problem = self._problem()
                told = replace(self._command, stops=stops, problem=None if problem is None else arg.text(problem))
                worker = await operations.register_worker(told)
        except Exception as error:
            log.debug("the worker's registration may not have been stored: %r", error)
        else:
            self._command = replace(self._command, started_at=worker.started_at)
