"""`/metrics` of a worker, for a deployment without a server. It asks for no key: let only Prometheus reach it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry, Metric, start_http_server

from .metrics import Metrics, build_info, memory
from .serving import PortTaken

if TYPE_CHECKING:
    from ..app import Ficha

ANSWER_S: Final = 10.0
"""How long a scrape waits for the database."""


class _DatabaseCollector:
    """Reads the metrics on the worker's event loop, called from the thread that serves."""

    def __init__(self, app: Ficha) -> None:
        self._metrics = Metrics(app)
        self._loop = asyncio.get_running_loop()

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        asked = asyncio.run_coroutine_threadsafe(self._metrics.families(), self._loop)
        return [*asked.result(ANSWER_S), build_info(), memory()]


@asynccontextmanager
async def metrics_served(app: Ficha, host: str, port: int) -> AsyncIterator[int]:
    """Serves the metrics while the block runs, on a thread of its own; yields the port."""
    registry = CollectorRegistry()
    for collector in (_DatabaseCollector(app), PROCESS_COLLECTOR, PLATFORM_COLLECTOR):
        registry.register(collector)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"port {port} of {host} is taken; choose another with --metrics-port") from error
        raise
    try:
        yield server.server_port
    finally:
        # On a thread, because it waits for the server, which may wait for this loop.
        await asyncio.to_thread(server.shutdown)
        server.server_close()
        await asyncio.to_thread(thread.join)
