"""What 100 jobs at once take: `python -m benchmarks.sizes`.

Five worker processes of 20, as `ficha worker` starts them, on PostgreSQL: directly, and through PgBouncer in
transaction mode with the settings of deploy/. Nine of ten jobs wait for a second, as a call of a provider does, and one
works for 20 ms. Measured are connections to PostgreSQL, the memory of each process at its highest, how long it takes
until 100 jobs that come at once all run, how many jobs end in a second while more wait, and how long a job waits when
there is room.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import asyncpg
import typer
from msgspec import Struct

from ficha import Ficha, Plan
from ficha.store.postgres import PostgresStore
from tests.deploy.pooler import deployed_pooler
from tests.support.postgres import new_database, server_folder
from tests.support.waiting import until

from .endurance.findings import percentile
from .machine import is_busy
from .processes import ROOT, cpu_s
from .sizes_application import ACCOUNT

PROCESSES: Final = 5
CONCURRENCY: Final = 20
AT_ONCE: Final = PROCESSES * CONCURRENCY
DATABASE_POOL: Final = 50
MEMORY_MIB: Final = 2_048
"""What the document allows: a database pool of 50, and 2 GB for each worker."""
CALL_S: Final = 1.0
WORK_S: Final = 0.02
WORK_EVERY: Final = 10
IDLE_WITHIN_S: Final = 120.0
_CONNECTED: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' "
    "AND application_name <> 'measure'"
)
_HELD: Final = "SELECT count(*) FROM ficha.leases"
_WAITS: Final = (
    "SELECT extract(epoch FROM started_at - created_at)::float8 FROM ficha.jobs "
    "WHERE batch_id = $1 AND started_at IS NOT NULL ORDER BY 1"
)
_ENDED: Final = "SELECT count(*) FROM ficha.jobs WHERE finished_at IS NOT NULL"


class Sizes(Struct):
    """What was measured. Memory in MiB, times in seconds, processor time in seconds of one core for each second."""

    all_claimed_s: float
    connections: int
    memory_mib: list[int]
    jobs_per_s: float
    worker_cores: float
    wait_s: list[float]
    """Of half of them, and of 99 of 100, while there is room."""


class Measuring:
    """A connection past everything, for looking on."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._connection = connection
        self.most_connections = 0

    async def look(self) -> int:
        """How many jobs are held now; notes how many connections there are."""
        self.most_connections = max(self.most_connections, await self._connection.fetchval(_CONNECTED))
        return int(await self._connection.fetchval(_HELD))

    async def until_idle(self) -> None:
        async def is_idle() -> bool:
            return await self.look() == 0

        await until(is_idle, IDLE_WITHIN_S)

    async def ended(self) -> int:
        return int(await self._connection.fetchval(_ENDED))

    async def waits(self, batch_id: str) -> list[float]:
        return [row[0] for row in await self._connection.fetch(_WAITS, batch_id)]


@contextlib.asynccontextmanager
async def measuring(direct: str) -> AsyncIterator[Measuring]:
    connection = await asyncpg.connect(direct, server_settings={"application_name": "measure"})
    try:
        yield Measuring(connection)
    finally:
        await connection.close()


def peak_mib(pid: int) -> int:
    """The most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) // 1_024


@contextlib.asynccontextmanager
async def workers(url: str, listen_url: str) -> AsyncIterator[Sequence[asyncio.subprocess.Process]]:
    words = ("worker", "--app", "benchmarks.sizes_application:app", "--database", url, "--log-level", "warning")
    environment = {**os.environ, "FICHA_LISTEN_URL": listen_url}
    started = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ficha.cli", *words, "--concurrency", str(CONCURRENCY), "--name", f"w{number}"),
            cwd=ROOT,
            env=environment,
        )
        for number in range(PROCESSES)
    ]
    try:
        yield started
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        await asyncio.gather(*(process.wait() for process in started))


async def measure(url: str, direct: str, seconds: float) -> Sizes:
    """All of it, on a fresh database. `direct` leads past the pooler, if there is one."""
    await PostgresStore(direct).migrate()
    os.environ["FICHA_LISTEN_URL"] = direct
    app = Ficha(url, plans=[Plan("open", priority=10)])
    _declare(app)
    async with app, measuring(direct) as seen, workers(url, direct) as started:
        await app.open_account(ACCOUNT, plan="open")
        await _until_alive(app)
        all_claimed_s = await _at_once(app, seen)
        jobs_per_s, cores = await _full(app, seen, started, seconds)
        waits = await _with_room(app, seen, seconds)
        memory = [peak_mib(process.pid) for process in started]
    return Sizes(all_claimed_s, seen.most_connections, memory, jobs_per_s, cores, waits)


def _declare(app: Ficha) -> None:
    """Tools of the same names: here they are only submitted."""

    @app.tool(timeout=600)
    async def ask(job: object, seconds: float) -> None: ...

    @app.tool(timeout=600)
    def think(job: object, seconds: float) -> None: ...


async def _until_alive(app: Ficha) -> None:
    async def are_alive() -> bool:
        return len([one for one in (await app.workers()).items if one.state == "alive"]) == PROCESSES

    await until(are_alive)


async def _at_once(app: Ficha, seen: Measuring) -> float:
    """Submits as many as can run, and waits until all of them do."""
    batch = await app.submit_batch([("ask", {"seconds": 3.0})] * AT_ONCE, account=ACCOUNT)

    async def all_run() -> bool:
        return await seen.look() == AT_ONCE

    await until(all_run, what="all of them run at once")
    await seen.until_idle()
    return max(await seen.waits(batch.batch_id))


async def _full(
    app: Ficha, seen: Measuring, started: Sequence[asyncio.subprocess.Process], seconds: float
) -> tuple[float, float]:
    """Keeps more jobs waiting than can run."""
    kinds = itertools.cycle([("think", {"seconds": WORK_S}), *[("ask", {"seconds": CALL_S})] * (WORK_EVERY - 1)])
    expected = AT_ONCE / (CALL_S * (1 - 1 / WORK_EVERY))
    await app.submit_batch([*itertools.islice(kinds, int(expected * (seconds + 10)))], account=ACCOUNT)
    await asyncio.sleep(3)
    began, before, busy_s = time.monotonic(), await seen.ended(), sum(cpu_s(process.pid) for process in started)
    while time.monotonic() - began < seconds:
        await seen.look()
        await asyncio.sleep(0.5)
    took_s = time.monotonic() - began
    ended = await seen.ended() - before
    cores = (sum(cpu_s(process.pid) for process in started) - busy_s) / took_s
    await seen.until_idle()
    return ended / took_s, cores


async def _with_room(app: Ficha, seen: Measuring, seconds: float) -> list[float]:
    """Submits half as many as could run, one after the other; how long each waits until it runs."""
    batch_id: str | None = None
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        asked = [("ask", {"seconds": CALL_S})]
        if batch_id is None:
            batch_id = (await app.submit_batch(asked, account=ACCOUNT)).batch_id
        else:
            await app.submit("ask", {"seconds": CALL_S}, account=ACCOUNT, batch=batch_id)
        await seen.look()
        await asyncio.sleep(2 * CALL_S / AT_ONCE)
    await seen.until_idle()
    assert batch_id is not None
    waits = await seen.waits(batch_id)
    return [percentile(waits, 0.5), percentile(waits, 0.99)]


async def both(seconds: float) -> dict[str, Sizes]:
    found: dict[str, Sizes] = {}
    with server_folder() as server:
        async with new_database(server) as direct:
            found["directly"] = await measure(direct, direct, seconds)
        async with new_database(server) as direct:
            with deployed_pooler(direct, DATABASE_POOL) as pooler:
                found["through PgBouncer"] = await measure(pooler.url, direct, seconds)
    return found


def table(found: dict[str, Sizes]) -> str:
    lines = [
        "| | connections to PostgreSQL | memory of a worker | 100 at once: all run after | jobs a second | processor "
        "time of the workers | wait with room, half and 99 of 100 |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for how, one in found.items():
        waits = " and ".join(f"{1_000 * wait:.0f}" for wait in one.wait_s)
        lines.append(
            f"| {how} | {one.connections} | {max(one.memory_mib)} MiB | {1_000 * one.all_claimed_s:.0f} ms "
            f"| {one.jobs_per_s:.0f} | {one.worker_cores:.2f} cores | {waits} ms |"
        )
    return "\n".join(lines)


def main(seconds: Annotated[float, typer.Option(help="How long each phase is.")] = 20.0) -> None:
    """Measures, and prints a table."""
    if is_busy():
        print("others use this machine: figures of time mean little", file=sys.stderr)
    print(table(asyncio.run(both(seconds))))


if __name__ == "__main__":
    typer.run(main)
