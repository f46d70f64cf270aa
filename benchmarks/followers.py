"""What those who follow jobs cost the process that serves them: `python -m benchmarks.followers`.

The events come from another process, so that the processor time is that of following alone, here and in the database.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import typer
from msgspec import json

from ficha import Ficha, Lease, Plan, Pool
from ficha.core.commands import Note
from ficha.core.outcomes import Held
from ficha.operations.base import answer
from ficha.server.streams import follow_job

from .databases import Kind, Postgres, databases
from .endurance.application import migrate
from .processes import ROOT, TICKS_PER_S

SPEAKERS: Final = 50
"""Jobs that events are written about."""
WRITES: Final = b"writes\n"


def application(url: str) -> Ficha:
    app = Ficha(url, plans=[Plan("open")], pools=[Pool("theirs")], lease_s=3_600.0, sweep_by_itself=False)

    @app.tool()
    async def ours(job: object) -> None: ...

    @app.tool(pool="theirs")
    async def theirs(job: object) -> None: ...

    return app


def main(followers: int = 2_000, per_s: int = 500, seconds: float = 20.0, database: str = "postgres") -> None:
    with databases(database) as (kind,):
        asyncio.run(Measure(kind, followers, per_s, seconds).run())


class Measure:
    """Watches this process for so many seconds in each of a few situations."""

    def __init__(self, kind: Kind, followers: int, per_s: int, seconds: float) -> None:
        self._kind = kind
        self._followers = followers
        self._per_s = per_s
        self._seconds = seconds
        self._settle_s = min(5.0, seconds)
        self._late_s: list[float] = []

    async def run(self) -> None:
        async with self._kind.fresh() as url:
            await migrate(url)
            async with application(url) as app:
                await app.open_account("ana")
                await app.submit_batch([("ours", {})] * self._followers, account="ana")
                await app.submit_batch([("theirs", {})] * SPEAKERS, account="ana")
                ours = await app.claim("default", limit=SPEAKERS, worker="w", starts=True)
                theirs = await app.claim("theirs", limit=SPEAKERS, worker="w", starts=True)
                await self._watch("nobody follows", nullcontext())
                async with self._followed(app):
                    await self._watch(f"{self._followers} streams, nothing happens", nullcontext())
                    for whose, leases in (("others'", theirs), ("followed", ours)):
                        await self._watch(
                            f"{self._followers} streams, {self._per_s} events/s of {whose} jobs",
                            self._written(url, leases),
                        )

    async def _watch(self, what: str, meanwhile: AbstractAsyncContextManager[None]) -> None:
        async with meanwhile:
            await asyncio.sleep(self._settle_s)
            self._late_s = []
            here, there, began = time.process_time(), self._database_s(), time.monotonic()
            await asyncio.sleep(self._seconds)
            took = time.monotonic() - began
            words = f"{what}: {(time.process_time() - here) / took:.2%} of a core"
            words += f", {(self._database_s() - there) / took:.2%} in the database"
            if len(self._late_s) > 1:
                cuts = statistics.quantiles(self._late_s, n=100)
                heard = f"{len(self._late_s) / took:.0f}/s heard after {cuts[49]:.3f} s"
                words += f"; {heard}, 99 % within {cuts[98]:.3f} s"
            print(words, flush=True)

    @asynccontextmanager
    async def _followed(self, app: Ficha) -> AsyncIterator[None]:
        """As many streams as there are jobs, each read by a task as an answer would be."""
        jobs: list[str] = []
        page = await app.jobs(tool="ours", limit=1_000)
        jobs += [job.id for job in page.items]
        while page.next is not None:
            page = await app.jobs(tool="ours", after=page.next, limit=1_000)
            jobs += [job.id for job in page.items]
        assert len(jobs) == self._followers
        tasks = [asyncio.create_task(self._read(follow_job(app, job_id))) for job_id in jobs]
        await asyncio.sleep(self._settle_s)
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, stream: AsyncGenerator[bytes, None]) -> None:
        async for text in stream:
            if b"event: log\n" in text:
                now = time.time()
                lines = (line for line in text.split(b"\n") if line.startswith(b"data: ") and b'"text"' in line)
                self._late_s += [now - float(json.decode(line[6:])["data"]["text"]) for line in lines]

    @asynccontextmanager
    async def _written(self, url: str, leases: list[Lease]) -> AsyncIterator[None]:
        """Another process writes events about these jobs, from the beginning of the block to its end."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.followers", "write", url, str(self._per_s)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.encode([(lease.job_id, lease.epoch) for lease in leases]) + b"\n")
        # Its first line says that it writes; how long a process takes to start is no part of the measure.
        assert await process.stdout.readline() == WRITES
        yield
        process.stdin.close()
        assert await process.wait() == 0

    def _database_s(self) -> float:
        """The processor time of the database's own processes: they live in its folder."""
        if not isinstance(self._kind, Postgres):
            return 0.0
        ticks = 0
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "cwd") == str(self._kind.log.parent):
                    ticks += sum(map(int, (process / "stat").read_text().rsplit(")", 1)[1].split()[11:13]))
            except OSError:
                continue
        return ticks / TICKS_PER_S


async def write(url: str, per_s: int) -> None:
    """Lines about the jobs that standard input names, with the time in each, evenly spread, until the input ends."""
    leases: list[Any] = json.decode(sys.stdin.buffer.readline())
    async with application(url) as app, asyncio.TaskGroup() as calls:
        ends = calls.create_task(asyncio.to_thread(sys.stdin.buffer.read))
        sys.stdout.buffer.write(WRITES)
        sys.stdout.buffer.flush()
        began, sent = time.monotonic(), 0
        while not ends.done():
            while sent < (time.monotonic() - began) * per_s:
                calls.create_task(say(app, Note(*leases[sent % len(leases)], repr(time.time()))))
                sent += 1
            await asyncio.sleep(0.002)


async def say(app: Ficha, note: Note) -> None:
    answer(await app.engine.call(note), Held)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        asyncio.run(write(sys.argv[2], int(sys.argv[3])))
    else:
        typer.run(main)
