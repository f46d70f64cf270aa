"""The server under attack: `ficha serve` with its children, a worker, and an account whose things nobody else may
see."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from tests.server.isolation import Tenant
from tests.support.processes import ROOT, ForkedProcess
from tests.support.server_process import Served, served

LEASE_MS: Final = "2000"
LIMITS: Final = {"FICHA_BODY_S": "2", "FICHA_HEADER_S": "2", "FICHA_WRITE_S": "2"}
"""Times shorter than the defaults, so that an attack of a few seconds sees their end."""
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Site:
    """A live server, from an attacker's side: where it is, keys of fresh accounts, and what belongs to a victim."""

    def __init__(self, server: Served) -> None:
        self.server = server
        self.host, port = server.url.removeprefix("http://").split(":")
        self.port = int(port)
        self.victim = Tenant(server)
        self.markers = (self.victim.account, self.victim.key, self.victim.token)
        """What must stand in no answer to anybody else."""
        self.worker: ForkedProcess | None = None

    async def account(self, plan: str = "open", credits: int = 1_000_000) -> tuple[str, str]:
        """A fresh account and a key of its own."""
        name = f"hostile-{uuid4().hex}"
        return name, await asyncio.to_thread(self.server.account, name, plan=plan, credits=credits)

    @property
    def children(self) -> list[int]:
        """The processes that serve: this server's own where it has no others."""
        assert self.server.process is not None
        pid = self.server.process.pid
        found = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        serving = [child for child in found if b"spawn_main" in _command(child)]
        return serving or [pid]

    @property
    def memory_mb(self) -> float:
        """What the serving processes hold in memory now."""
        return sum(_resident(pid) for pid in self.children) / 2**20

    def start_worker(self) -> None:
        options = ["worker", "--app", "tests.server.shop:app", "--database", self.server.database]
        variables = {**os.environ, "JOB_LOCK_TTL_MS": LEASE_MS}
        self.worker = ForkedProcess(
            "ficha.cli", [*options, "--pools", "cpu"], cwd=ROOT, env=variables, stderr=subprocess.DEVNULL
        )

    def stop_worker(self) -> None:
        assert self.worker is not None
        self.worker.kill()
        self.worker.wait(30)


@contextmanager
def site(database: str) -> Iterator[Site]:
    """A server of two processes and a worker on a migrated database."""
    with served(database, "--processes", "2", JOB_LOCK_TTL_MS=LEASE_MS, **LIMITS) as server:
        found = Site(server)
        found.start_worker()
        try:
            yield found
        finally:
            found.stop_worker()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0
