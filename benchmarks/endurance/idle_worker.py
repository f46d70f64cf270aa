"""An idle worker: what `ficha worker` takes of a machine and its database while there is nothing to do."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg

from ..databases import Kind, Postgres
from ..peer import Wrong
from ..processes import ROOT, cpu_s
from .application import migrate
from .findings import Verdict
from .idle_application import COUNT_IN
from .idle_side import resident_mb
from .sizes import Size

MOST_MB: Final = 70.0
MOST_OF_A_CORE: Final = 0.01
MOST_STATEMENTS_PER_S: Final = 2.0
STATEMENT: Final = re.compile(rb"LOG:  (?:statement|execute [^:]+): ")
STARTS_S: Final = 60.0
ENDS_S: Final = 60.0


@dataclass(frozen=True)
class IdleWorker:
    """Its memory; the share of a core that it took, all threads together; and what it asked of the database,
    transactions' beginnings and ends included."""

    resident_mb: float
    of_a_core: float
    statements_per_s: float

    def row(self) -> list[str]:
        return [f"{self.resident_mb:.1f}", f"{self.of_a_core:.2%}", f"{self.statements_per_s:.2f}"]

    def verdicts(self, kind: str) -> list[Verdict]:
        what = f"{kind}: an idle worker process"
        return [
            Verdict(what, f"under {MOST_MB:g} MB", f"{self.resident_mb:.1f} MB", self.resident_mb < MOST_MB),
            Verdict(
                what,
                f"under {MOST_OF_A_CORE:.0%} of a core",
                f"{self.of_a_core:.2%}",
                self.of_a_core < MOST_OF_A_CORE,
            ),
            Verdict(
                what,
                f"under {MOST_STATEMENTS_PER_S:g} statements/s",
                f"{self.statements_per_s:.2f}",
                self.statements_per_s < MOST_STATEMENTS_PER_S,
            ),
        ]


async def idle_worker(kind: Kind, size: Size) -> IdleWorker:
    async with kind.fresh() as url:
        await migrate(url)
        with tempfile.TemporaryDirectory() as folder:
            counted = Path(folder, "statements")
            statements = await _counting(kind, url, counted)
            async with _worker(url, counted) as process:
                await asyncio.sleep(size.idle_s)
                taken_s, asked = cpu_s(process.pid), statements()
                await asyncio.sleep(size.watched_s)
                return IdleWorker(
                    resident_mb(process.pid),
                    (cpu_s(process.pid) - taken_s) / size.watched_s,
                    (statements() - asked) / size.watched_s,
                )


async def _counting(kind: Kind, url: str, counted: Path) -> Callable[[], int]:
    """What says how many statements were asked so far: PostgreSQL's log, or SQLite's trace within the worker."""
    if not isinstance(kind, Postgres):
        return lambda: counted.stat().st_size
    connection = await asyncpg.connect(url)
    try:
        # This database alone writes its statements to the log, in connections from now on.
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET log_statement = 'all'")
    finally:
        await connection.close()
    log = kind.log
    return lambda: len(STATEMENT.findall(log.read_bytes()))


@asynccontextmanager
async def _worker(url: str, counted: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command itself, from when it says that it has started until it has stopped as it was told."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "ficha.cli", "worker", "--log", "json"),
        env={**os.environ, "FICHA_APP": f"{__package__}.idle_application:app", "FICHA_DATABASE_URL": url}
        | {COUNT_IN: str(counted)},
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(STARTS_S):
            while b"worker started" not in (line := await process.stderr.readline()):
                if not line:
                    raise Wrong("the idle worker ended before it had started")
        yield process
        process.terminate()
        async with asyncio.timeout(ENDS_S):
            await process.wait()
        if process.returncode != 0:
            raise Wrong(f"the idle worker ended with {process.returncode}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
