"""The long run: `python -m tests.chaos --minutes 20 --report chaos.md`.

Each fault strikes its own load for its share of the time. The load is as much as the machine can do: callers that call
again as soon as they are answered, while the queue is not long, and jobs that take no time. The report says how often
the fault struck, how long it took until everything was right again, and what the throughput was before and after. Ends
with 1 if anything was wrong, or the throughput was not back within a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ficha.store.postgres import PostgresStore
from tests.chaos import faults, postgres_faults, sqlite_faults
from tests.chaos.actors import Habits
from tests.chaos.application import OPEN_ACCOUNTS
from tests.chaos.faults import Fault
from tests.chaos.pgbouncer import pooled
from tests.chaos.proxy import bad_network
from tests.chaos.servers import FragileServer, fragile_server
from tests.chaos.space import small_disk
from tests.chaos.supervisor import BOUND_S, SLACK_S, Load
from tests.support.postgres import new_database

STRETCH_S: Final = 5.0
"""How long a stretch is whose throughput is looked at."""
MEASURED_S: Final = 9.0
"""How long it is looked at before the fault: many stretches, which overlap."""
WITHIN_S: Final = 60.0
"""How soon after a fault it must be back."""
SHARE: Final = 0.95
SATURATED: Final = Habits(callers=6, accounts=OPEN_ACCOUNTS, pace_s=0.0, handler_s=0.0)

ROOT: Final = Path(__file__).parents[2]

Site = AbstractAsyncContextManager[tuple[Load, Fault]]
Setting = Callable[[Path], Site]


class Result(Struct):
    name: str
    struck: int = 0
    jobs: int = 0
    before: float = 0.0
    """The median of the stretches before the fault, and from the least to the most of them."""
    spread: tuple[float, float] = (0.0, 0.0)
    after: float = 0.0
    back_s: float = 0.0
    fresh: float = 0.0
    """Where it was not back in time: what a load does now that no fault has struck."""
    recovery_s: float = 0.0
    wrong: list[str] = []


@asynccontextmanager
async def on_sqlite(folder: Path, fault: Fault, habits: Habits = SATURATED) -> AsyncIterator[tuple[Load, Fault]]:
    yield Load(f"sqlite:///{folder / 'ficha.db'}", folder, habits=habits), fault


def settings(server: FragileServer) -> dict[str, Setting]:
    """Every fault, with the load that it strikes."""

    @asynccontextmanager
    async def on_postgres(
        folder: Path, fault: Fault, habits: Habits = SATURATED, apart_s: int = 0
    ) -> AsyncIterator[tuple[Load, Fault]]:
        async with new_database(server) as url:
            await PostgresStore(url).migrate()
            load = Load(url, folder, habits=habits)
            if apart_s:
                load.set_clocks_apart(apart_s)
            yield load, fault

    @asynccontextmanager
    async def over_network(folder: Path, fault: Callable[..., Fault]) -> AsyncIterator[tuple[Load, Fault]]:
        async with new_database(server) as url:
            await PostgresStore(url).migrate()
            async with bad_network(url) as (network, detour):
                yield Load(detour, folder, direct=url, habits=SATURATED), fault(network)

    @asynccontextmanager
    async def over_pooler(folder: Path) -> AsyncIterator[tuple[Load, Fault]]:
        async with new_database(server) as url:
            await PostgresStore(url).migrate()
            with pooled(url) as detour:
                yield Load(detour, folder, direct=url, habits=SATURATED), faults.kill_at_random

    @asynccontextmanager
    async def on_small_disk(folder: Path) -> AsyncIterator[tuple[Load, Fault]]:
        (folder / "disk").mkdir()
        with small_disk(folder / "disk", mib=400) as disk:
            space = sqlite_faults.files_as_they_are if disk is None else lambda load: disk
            load = Load(f"sqlite:///{folder / 'disk' / 'ficha.db'}", folder, habits=SATURATED)
            yield load, sqlite_faults.run_out_of(space)

    @asynccontextmanager
    async def without_space(folder: Path) -> AsyncIterator[tuple[Load, Fault]]:
        with fragile_server(like=server, disk_mib=1_000) as own:
            await PostgresStore(own.url()).migrate()
            yield Load(own.url(), folder, habits=SATURATED), postgres_faults.run_out_of_space(own)

    @asynccontextmanager
    async def crashing(folder: Path) -> AsyncIterator[tuple[Load, Fault]]:
        # Without `new_database`, whose connection would not survive either.
        await PostgresStore(server.url()).migrate(0)
        await PostgresStore(server.url()).migrate()
        yield Load(server.url(), folder, habits=SATURATED), postgres_faults.crash_the_server(server, every_s=4.0)

    sweeping, deaf, disk = (
        replace(SATURATED, leads_always=True),
        replace(SATURATED, hears=False),
        replace(SATURATED, disk=True),
    )
    return {
        "kill -9 at random, SQLite": lambda f: on_sqlite(f, faults.kill_at_random),
        "kill -9 at random, PostgreSQL": lambda f: on_postgres(f, faults.kill_at_random),
        "kill -9 of everybody, SQLite": lambda f: on_sqlite(f, faults.kill_everybody),
        "kill -9 of everybody, PostgreSQL": lambda f: on_postgres(f, faults.kill_everybody),
        "kill -9 between load and reply, SQLite": lambda f: on_sqlite(f, faults.kill_at_named_points),
        "kill -9 between load and reply, PostgreSQL": lambda f: on_postgres(f, faults.kill_at_named_points),
        "SIGSTOP past the lease, SQLite": lambda f: on_sqlite(f, faults.stop_past_the_lease),
        "SIGSTOP past the lease, PostgreSQL": lambda f: on_postgres(f, faults.stop_past_the_lease),
        "everybody sweeps, with kills, SQLite": lambda f: on_sqlite(f, faults.kill_at_random, sweeping),
        "everybody sweeps, with kills, PostgreSQL": lambda f: on_postgres(f, faults.kill_at_random, sweeping),
        "SQLite: operations fail": lambda f: on_sqlite(f, sqlite_faults.fail_operations, disk),
        "SQLite: disk full": lambda f: on_sqlite(f, sqlite_faults.fill_the_disk, disk),
        "SQLite: disk really full": on_small_disk,
        "SQLite: a reader stays": lambda f: on_sqlite(f, sqlite_faults.hold_a_reader),
        "SQLite: the clock is set ahead": lambda f: on_sqlite(f, faults.move_the_clock),
        "PostgreSQL: stopped in immediate mode": crashing,
        "PostgreSQL: disk really full": without_space,
        "PostgreSQL: backends terminated": lambda f: on_postgres(f, postgres_faults.terminate_backends),
        "PostgreSQL: cut around COMMIT": lambda f: over_network(f, postgres_faults.cut_commits),
        "PostgreSQL: slow, silent, breaking network": lambda f: over_network(f, postgres_faults.spoil_the_network),
        "PostgreSQL: max_connections reached": lambda f: on_postgres(f, postgres_faults.take_all_connections),
        # Longer than the store waits for a lock.
        "PostgreSQL: row and table locked": lambda f: on_postgres(f, postgres_faults.lock_from_outside(6.0, 6.0)),
        "PostgreSQL: no notifications, with kills": lambda f: on_postgres(f, faults.kill_at_random, deaf),
        "PostgreSQL: pgbouncer, with kills": over_pooler,
        "PostgreSQL: clocks an hour apart, with kills": lambda f: on_postgres(f, faults.kill_at_random, apart_s=3_600),
    }


async def measure(name: str, setting: Setting, seconds: float) -> Result:
    result = Result(name)
    try:
        async with _under(setting) as (load, fault):
            before = await _rates_now(load)
            result.before, result.spread = statistics.median(before), (min(before), max(before))
            result.struck = await fault(load, seconds)
            ended_at = time.monotonic()
            result.recovery_s = await load.settled(BOUND_S + SLACK_S)
            await _come_back(load, ended_at, enough(before), result)
            verdict = await load.finish(most_s=WITHIN_S)
            result.jobs = verdict.jobs
            result.wrong += verdict.wrong
        if result.back_s > WITHIN_S:
            async with _under(setting) as (load, _):
                fresh = await _rates_now(load)
            result.fresh = statistics.median(fresh)
            if result.after < enough(fresh):
                result.wrong.append(f"within {WITHIN_S:.0f} s the throughput was not back, and a fresh load has more")
    except Exception as error:
        result.wrong.append(f"{type(error).__name__}: {error}")
    return result


@asynccontextmanager
async def _under(setting: Setting) -> AsyncIterator[tuple[Load, Fault]]:
    with tempfile.TemporaryDirectory(prefix="ficha-chaos-") as folder:
        async with setting(Path(folder)) as (load, fault), load:
            yield load, fault


async def _rates_now(load: Load) -> list[float]:
    """The throughput of stretches that overlap, once the load is under way."""
    await asyncio.sleep(2.0)
    began_at = time.monotonic()
    await asyncio.sleep(MEASURED_S)
    return [rate for _, rate in load.rates(began_at, STRETCH_S)]


def enough(rates: list[float]) -> float:
    """What is as good as these: 95 % of their median.

    Where the machine itself was less steady, and one of them was less, as much as that one is enough: a fault cannot
    be told from noise by what noise does as well.
    """
    return min(SHARE * statistics.median(rates), *rates)


async def _come_back(load: Load, ended_at: float, wanted: float, result: Result) -> None:
    """Waits for a stretch after the fault that is good enough."""
    result.back_s = float("inf")
    while time.monotonic() < ended_at + WITHIN_S + STRETCH_S and result.back_s > WITHIN_S:
        await asyncio.sleep(0.2)
        after = load.rates(ended_at, STRETCH_S)
        result.after = max((rate for _, rate in after), default=0.0)
        result.back_s = next((began_at - ended_at for began_at, rate in after if rate >= wanted), float("inf"))


async def cut_power(seconds: float) -> Result:
    result = Result("SQLite: power cut, unflushed writes lost")
    with tempfile.TemporaryDirectory(prefix="ficha-chaos-") as folder:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.chaos.power", folder, str(seconds), "1", str(time.time_ns())),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await program.communicate()
        if program.returncode != 0:
            result.wrong.append(f"it ended with {program.returncode}")
            return result
        found = json.loads(said)
        result.struck, result.jobs, result.wrong = found["cuts"], found["told"], found["wrong"]
    return result


def report(results: list[Result], minutes: float) -> str:
    lines = [
        f"# Faults, {minutes:g} minutes",
        "",
        "The load is all that the machine can do.",
        "",
        f"- before: jobs ended per second in stretches of {STRETCH_S:g} s before the fault; the median and the range",
        "- after: the same in the best stretch after it, until the throughput was back",
        "- recovery: seconds from the fault's end until every job that was active then was at its own end",
        "- back: seconds from the fault's end until a stretch began that was as good as before: 95 % of the median,",
        "  or, where the machine was less steady than that, the least of the stretches before; if that does not come,",
        "  the machine may have others to serve, so a fresh load without a fault is measured and compared with",
        "",
        "| fault | struck | jobs | before, jobs/s | after, jobs/s | ratio | recovery, s | back, s | verify, oracle |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += map(row, results)
    for r in results:
        lines += [f"\n## {r.name}\n", *(f"- {words}" for words in r.wrong[:20])] if r.wrong else []
    return "\n".join(lines) + "\n"


def row(r: Result) -> str:
    ratio = f"{r.after / r.before:.2f}" if r.before else ""
    before = f"{r.before:.0f} ({r.spread[0]:.0f} to {r.spread[1]:.0f})" if r.before else ""
    after, recovery, back = (f"{r.after:.0f}", f"{r.recovery_s:.1f}", f"{r.back_s:.1f}") if r.before else ("", "", "")
    if r.fresh:
        back = f"not within {WITHIN_S:.0f}; a fresh load has {r.fresh:.0f}/s now"
    found = f"WRONG: {len(r.wrong)}" if r.wrong else "clean"
    return f"| {r.name} | {r.struck} | {r.jobs} | {before} | {after} | {ratio} | {recovery} | {back} | {found} |"


async def run(minutes: float, wanted: str) -> list[Result]:
    results: list[Result] = []
    with fragile_server() as server:
        chosen = {name: setting for name, setting in settings(server).items() if wanted.lower() in name.lower()}
        # Besides the fault itself, each load is measured before and after, started, drained and looked through.
        seconds = max(2.0, minutes * 60 / (len(chosen) + 1) - MEASURED_S - STRETCH_S - 8.0)
        for name, setting in chosen.items():
            results.append(await measure(name, setting, seconds))
            print(row(results[-1]), flush=True)
        if wanted.lower() in "sqlite: power cut":
            results.append(await cut_power(seconds))
            print(row(results[-1]), flush=True)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    words = "for all faults together; to measure and check takes half a minute for each in any case"
    parser.add_argument("--minutes", type=float, default=20.0, help=words)
    parser.add_argument("--report", type=Path, help="a Markdown file to write")
    parser.add_argument("--only", default="", help="faults whose name contains this")
    given = parser.parse_args()
    results = asyncio.run(run(given.minutes, given.only))
    text = report(results, given.minutes)
    if given.report is not None:
        given.report.write_text(text)
    print(text)
    return int(any(result.wrong for result in results))


if __name__ == "__main__":
    sys.exit(main())
