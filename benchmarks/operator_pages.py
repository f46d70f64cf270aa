"""How long the server takes for what the console reads, among a million jobs: `python -m benchmarks.operator_pages`.

Half of the jobs have ended, half of them wait. Each route is asked once by a process that knows nothing yet, and then
again and again; sign-in, JSON and all are part of the time, the network is not.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Annotated, Final

import httpx
import typer
from msgspec import Struct

from ficha import Ficha, Plan, Pool
from ficha.server import Settings
from tests.stores import postgres_million_rows, sqlite_million_rows
from tests.stores.million_rows import WHALE, Population, account_of, uuid_of

from .databases import Kind, databases

SECRET: Final = "b3BlcmF0b3ItcGFnZXMtMDEyMzQ1Njc4OS1hYmNk"  # noqa: S105 (of a database that is gone in a minute)
SEARCHES: Final = {
    "all jobs": "",
    "a state": "state:failed",
    "a state that none has": "state:cancelled",
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
    "the overview of a day": "/api/admin/overview?range=24h",
}


class Line(Struct, frozen=True):
    """What one route took, in milliseconds: the first time, in the middle and at worst of the others."""

    what: str
    first_ms: float
    usual_ms: float
    worst_ms: float


async def measure(url: str, repeats: int) -> list[Line]:
    """Asks each route of a server on this database, which has a population."""
    plans = [Plan(name) for name in ("pro", "crew", "whale", "solo")]
    app = Ficha(url, plans=plans, pools=[Pool("gpu"), Pool("tight", slots=20)], sweep_by_itself=False)

    @app.tool(pool="gpu", cost=1)
    async def draw(job: object, prompt: str = "") -> None: ...

    async with app:
        key = (await app.create_api_key("pages", scope="viewer")).secret
        transport = httpx.ASGITransport(app.asgi(Settings(secret=SECRET)))  # type: ignore[arg-type]
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://pages", headers=headers) as client:
            paths = {f"search: {what}": ("/api/admin/jobs", text) for what, text in SEARCHES.items()}
            paths |= {f"count: {what}": ("/api/admin/jobs/count", text) for what, text in SEARCHES.items()}
            lines = [await _line(client, what, path, repeats, search=text) for what, (path, text) in paths.items()]
            return lines + [await _line(client, what, path, repeats) for what, path in OTHERS.items()]


async def _line(client: httpx.AsyncClient, what: str, path: str, repeats: int, **query: str) -> Line:
    times = []
    for _ in range(1 + repeats):
        began_at = time.perf_counter()
        answer = await client.get(httpx.URL(path).copy_merge_params(query))
        times.append((time.perf_counter() - began_at) * 1_000)
        answer.raise_for_status()
    first, *others = times
    return Line(what, first, statistics.median(others), max(others))


async def fill(url: str, jobs: int) -> None:
    population = Population(jobs // 2)
    if url.startswith("postgresql:"):
        await postgres_million_rows.fill(url, population)
    else:
        await sqlite_million_rows.fill(url.removeprefix("sqlite:///"), population)


def main(
    jobs: int = 1_000_000,
    repeats: int = 10,
    database: Annotated[str | None, typer.Option(help="postgres or sqlite; both by default.")] = None,
) -> None:
    with databases(database) as kinds:
        for kind in kinds:
            asyncio.run(_show(kind, jobs, repeats))


async def _show(kind: Kind, jobs: int, repeats: int) -> None:
    async with kind.fresh() as url:
        await fill(url, jobs)
        print(f"\n{kind.name}, {jobs:,} jobs\n\n| | first | usual | worst |\n|---|---:|---:|---:|")
        for line in await measure(url, repeats):
            print(
                f"| {line.what} | {line.first_ms:.0f} ms | {line.usual_ms:.0f} ms | {line.worst_ms:.0f} ms |",
                flush=True,
            )


if __name__ == "__main__":
    typer.run(main)
