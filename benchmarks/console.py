"""`python -m benchmarks.console`: how long the console's pages take at the server, in a database with a million jobs.

Half of the jobs have ended and half wait. The overview is made anew for each request; in production, all who look at
the same range share one for a second. The history is two days of minutes and 31 days of hours, each with every
combination of plan and tool. Requests go through the whole server but its sockets, one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx
import uvloop
from fastapi import FastAPI
from rich.console import Console
from rich.table import Table

from ficha import Ficha
from ficha.core import commands as c
from ficha.core.figures import CURSOR, begin_of
from ficha.core.outcomes import Folded
from ficha.core.policy import DAY, HOUR, SECOND
from ficha.core.records import FigureCursor, Figures, JobCounts
from ficha.engine import queries
from ficha.engine.views import RANGES
from ficha.server import Settings
from ficha.store.base import GetFigurePoint
from tests.stores import postgres_million_rows, sqlite_million_rows
from tests.stores.million_rows import POLICY, WHALE, Population, account_of, uuid_of

from .databases import Kind, databases
from .endurance.findings import percentile

MOST_MS: Final = 200.0
"""What a page may take."""
SERIES: Final = [(plan, f"tool {n}") for plan in POLICY.plans for n in range(8)]
SEARCHES: Final = {
    "all jobs": "",
    "a state": "state:completed",
    "a state that none has": "state:failed",
    "an error that none has": 'error:"xyzzy"',
    "a tool that none has": "tool:rare",
    "waiting jobs": "state:queued",
    "waiting jobs of a tool that none has": "state:queued tool:rare",
    "running or failed, of a plan that none has": "state:running,failed plan:rare",
    "an account": f"account:{account_of(7)}",
    "an account with nearly half of what waits, by error": f"account:{WHALE} error:x",
    "five accounts": "account:" + ",".join(map(account_of, range(5))) + " error:x",
    "a session": "session:session-7",
    "a correlation id": "correlation:request-7",
    "a batch": f"batch:{uuid_of('batch', 3)}",
    "dead letters": "dead:yes",
    "stuck jobs": "stuck:yes",
    "one id": uuid_of("ended", 77),
}
OTHERS: Final = {
    "a job's page": f"/api/admin/jobs/{uuid_of('ended', 77)}",
    "dead letters by error": "/api/admin/dead/groups",
    "batches": "/api/batches",
    "accounts by prefix": "/api/admin/accounts?search=account-10000",
    "audit lines of a target": "/api/admin/audit?target=API%20key%2077",
    "words for searches": "/api/admin/search-words",
}
PAGES: Final = {
    **{f"overview: {asked}": f"/api/admin/overview?range={asked}" for asked in RANGES},
    **{
        f"{what}: {which}": str(httpx.URL(path, params={"search": text}))
        for what, path in {"jobs": "/api/admin/jobs", "count": "/api/admin/jobs/count"}.items()
        for which, text in SEARCHES.items()
    },
    **OTHERS,
}
AT_ONCE: Final = 400
"""Minutes that one command adds."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description="Measures the console's pages.")
    parser.add_argument("--jobs", type=int, default=1_000_000, help="how many jobs there are")
    parser.add_argument("--requests", type=int, default=30, help="how often each page is asked for")
    parser.add_argument("--database", choices=["postgres", "sqlite"], help="one database instead of both")
    options = parser.parse_args(arguments)
    table = Table("database", "page", "p50 ms", "p95 ms", "kB", title=f"Pages of the console at {options.jobs:,} jobs")
    slow = 0
    with databases(options.database) as kinds, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for kind in kinds:
            for what, took_ms, size in runner.run(measured(kind, options.jobs, options.requests)):
                p50, p95 = (percentile(took_ms, share) for share in (0.5, 0.95))
                slow += p95 > MOST_MS
                table.add_row(kind.name, what, f"{p50:.1f}", f"{p95:.1f}", f"{size / 1_000:.1f}")
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if slow:
        sys.exit(f"{slow} pages took longer than {MOST_MS:g} ms")


async def measured(kind: Kind, jobs: int, requests: int) -> list[tuple[str, list[float], int]]:
    """Each page, how long its requests took, and how large it is."""
    found = []
    async with kind.fresh() as url:
        await _fill(url, jobs)
        async with _server(url) as admin:
            for what, path in PAGES.items():
                await _asked(admin, path)
                answers = [await _asked(admin, path) for _ in range(requests)]
                found.append((what, [took_ms for took_ms, _ in answers], answers[-1][1]))
    return found


async def _asked(admin: httpx.AsyncClient, path: str) -> tuple[float, int]:
    asked_at = time.perf_counter()
    answer = await admin.get(path)
    took_ms = (time.perf_counter() - asked_at) * 1_000
    answer.raise_for_status()
    return took_ms, len(answer.content)


async def _fill(url: str, jobs: int) -> None:
    population = Population(jobs // 2)
    if url.startswith("sqlite:"):
        await sqlite_million_rows.fill(url.removeprefix("sqlite:///"), population)
    else:
        await postgres_million_rows.fill(url, population)


@asynccontextmanager
async def _server(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A server on a database that nobody sweeps, and an operator of it."""
    before, queries.OVERVIEW_S = queries.OVERVIEW_S, -1.0  # type: ignore[misc]
    secret = "of a benchmark, where nothing is to be kept"  # noqa: S105 (it guards nothing)
    app = Ficha(url, plans=POLICY.plans.values(), sweep_by_itself=False, secret=secret)
    host = app.asgi(Settings(secret=secret))
    assert isinstance(host, FastAPI)
    try:
        async with host.router.lifespan_context(host):
            await app.engine.sweeper.stop(grace_s=0)
            await _add_history(app)
            key = (await app.create_api_key("operator", scope="admin")).secret
            transport = httpx.ASGITransport(host)
            headers = {"Authorization": f"Bearer {key}"}
            async with httpx.AsyncClient(transport=transport, base_url="http://bench", headers=headers) as admin:
                yield admin
    finally:
        queries.OVERVIEW_S = before  # type: ignore[misc]


async def _add_history(app: Ficha) -> None:
    """As if the leader had added up all commits so far, over the last month."""
    point = await app.engine.store.read(GetFigurePoint())
    counts = tuple(JobCounts(plan, tool, "gpu", 1, 0, 3, 2, 2, 1, 0) for plan, tool in SERIES)
    buckets = {bucket: 5 for bucket in range(100, 160)}
    figures = Figures(counts, buckets, buckets, {f"reason {n}": n for n in range(10)}, 1, 500, 20, 300, 10_000)
    minutes = range(begin_of("minute", point.now - 2 * DAY), point.now, 60 * SECOND)
    hours = range(begin_of("hour", point.now - 31 * DAY), point.now - 2 * DAY, HOUR)
    parts = [(at, figures) for at in (*hours, *minutes)]
    cursor = point.cursor or FigureCursor(CURSOR)
    for start in range(0, len(parts), AT_ONCE):
        command = c.FoldFigures(cursor.turn, point.last, point.now, tuple(parts[start : start + AT_ONCE]))
        outcome = await app.engine.call(command)
        assert isinstance(outcome, Folded)
        assert outcome.changed
        cursor = outcome.cursor
    app.engine.figures._next_correction_at = 0.0
    await app.engine.figures.fold()


if __name__ == "__main__":
    main()
