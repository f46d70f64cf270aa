"""`python -m provider_simulator --port 0 --seconds 3`: serves until it is ended, after a line with its address."""

from __future__ import annotations

import argparse
import asyncio
import socket

import uvicorn

from .http import Protocol
from .server import application
from .tasks import Simulator


def main() -> None:
    parser = argparse.ArgumentParser(prog="provider_simulator", description=__doc__)
    parser.add_argument("--port", type=int, default=8900, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long a task works (default: %(default)s)")
    retry = "seconds before a call-back that failed is tried again (default: %(default)s)"
    parser.add_argument("--retry-seconds", type=float, default=1.0, help=retry)
    options = parser.parse_args()
    asyncio.run(serve(options.port, options.seconds, options.retry_seconds))


async def serve(port: int, seconds: float, retry_seconds: float) -> None:
    with socket.create_server(("127.0.0.1", port), backlog=1024) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        simulator = Simulator(address, seconds=seconds, retry_seconds=retry_seconds)
        config = uvicorn.Config(
            application(simulator),
            http=Protocol,
            ws="none",
            lifespan="off",
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        print(address, flush=True)
        try:
            await uvicorn.Server(config).serve(sockets=[listening])
        finally:
            await simulator.close()


if __name__ == "__main__":
    main()
