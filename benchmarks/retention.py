"""Claims beside millions of ended jobs, and beside their removal: `python -m benchmarks.retention`.

Two databases of each kind, one empty and one with many ended jobs, are measured in turns, so that whatever else the
machine does befalls both. A round submits jobs, and counts how fast they are claimed and finished. In the last two
columns another process prunes meanwhile: at the pace of the process that leads, and by hand. What counts is the ratio
to the empty database.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from typing import Annotated, Final

import asyncpg
import typer
import uvloop

from ficha import Ficha

from .databases import Kind, databases
from .endurance.application import application, none_refused, open_accounts, owner, request
from .endurance.application import migrate as migrated
from .endurance.filling import Contents, filled
from .ficha_side import POOL
from .processes import child
from .workload import RESULT

ACCOUNTS: Final = 1_000
CLAIMED: Final = 100
DAYS: Final = 10
"""How long ago the jobs ended: longer than the side's process keeps them."""
COLUMNS: Final = ("empty", "ended jobs", "pruned by the leader", "pruned by hand")


async def lives(app: Ficha, jobs: int, name: str) -> float:
    """How many jobs a second are claimed and finished."""
    for first in range(0, jobs, 500):
        wanted = range(first, min(jobs, first + 500))
        none_refused(await app.submit_many(request(owner(n, ACCOUNTS), f"{name}-{n}") for n in wanted))
    began_at, done = time.perf_counter(), 0
    while leases := await app.claim(POOL, limit=CLAIMED, worker="worker"):
        none_refused(await app.finish_many((lease, RESULT) for lease in leases))
        done += len(leases)
    assert done == jobs, f"{done} of {jobs} jobs were claimed"
    return jobs / (time.perf_counter() - began_at)


async def measure(kind: Kind, ended: int, jobs: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {column: [] for column in COLUMNS}
    async with AsyncExitStack() as stack:
        small = await stack.enter_async_context(kind.fresh())
        await migrated(small)
        contents = Contents(0, finished=ended, ended_days=DAYS)
        full = await stack.enter_async_context(filled(kind, contents, ACCOUNTS, say))
        for line in await sizes(full, ended):
            say(line)
        empty_app = await stack.enter_async_context(application(small))
        await open_accounts(empty_app, ACCOUNTS)
        full_app = await stack.enter_async_context(application(full))
        side = await stack.enter_async_context(child(f"{__package__}.retention_side", full))
        for app in (empty_app, full_app):
            await lives(app, jobs, "warm")
        for number in range(rounds):
            found["empty"].append(await lives(empty_app, jobs, f"a{number}"))
            found["ended jobs"].append(await lives(full_app, jobs, f"b{number}"))
            for column, by_hand in (("pruned by the leader", False), ("pruned by hand", True)):
                before = await counted(full)
                began_at = time.perf_counter()
                await side.ask("start", by_hand=by_hand)
                found[column].append(await lives(full_app, jobs, f"c{int(by_hand)}-{number}"))
                await side.ask("stop")
                gone = before + jobs - await counted(full)
                took_s = time.perf_counter() - began_at
                say(f"{kind.name}, round {number + 1}, {column}: {gone:,} jobs left, {gone / took_s:,.0f}/s")
    return found


async def sizes(url: str, ended: int) -> list[str]:
    """What a job takes in the largest tables, with their indexes."""
    if not url.startswith("postgresql:"):
        return []
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "SELECT relname, pg_relation_size(oid) AS heap, pg_total_relation_size(oid) AS total FROM pg_class "
            "WHERE relnamespace = 'ficha'::regnamespace AND relkind = 'r' ORDER BY 3 DESC LIMIT 3"
        )
    finally:
        await connection.close()
    return [f"{name}: {total / ended:,.0f} bytes a job, {heap / ended:,.0f} of them rows" for name, heap, total in rows]


async def counted(url: str) -> int:
    """How many jobs there are."""
    if not url.startswith("postgresql:"):
        return 0
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM ficha.jobs"))
    finally:
        await connection.close()


def say(text: str) -> None:
    typer.echo(text, err=True)


def main(
    ended: Annotated[int, typer.Option(help="Ended jobs in the full database.")] = 5_000_000,
    jobs: Annotated[int, typer.Option(help="Jobs claimed and finished in a round.")] = 5_000,
    rounds: int = 5,
    database: Annotated[str | None, typer.Option(help="postgres or sqlite; both unless given.")] = "postgres",
) -> None:
    with databases(database) as kinds, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for kind in kinds:
            found = runner.run(measure(kind, ended, jobs, rounds))
            middle = {column: statistics.median(rates) for column, rates in found.items()}
            typer.echo(f"{kind.name}, {ended:,} ended jobs: claimed and finished a second, median of {rounds} rounds")
            for column, rate in middle.items():
                ratios = [one / other for one, other in zip(found[column], found["empty"], strict=True)]
                spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
                typer.echo(f"  {column:22} {rate:8,.0f}   {statistics.median(ratios):.2f} of empty ({spread})")


if __name__ == "__main__":
    typer.run(main)
