"""The long run: `python -m tests.chaos --minutes 20 --report chaos.md`.

Each fault strikes its own load for its share of the time. The report says how often it struck, how long it took until
everything was right again, and what the throughput was before and after. Ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
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
from tests.chaos.faults import Fault
from tests.chaos.pgbouncer import pooled
from tests.chaos.proxy import bad_network
from tests.chaos.servers import FragileServer, fragile_server
from tests.chaos.supervisor import BOUND_S, SLACK_S, Load
from tests.postgres import new_database

MEASURED_S: Final = 5.0
"""How long the throughput before and after is measured."""
WITHIN_S: Final = 60.0
"""How soon after a fault it must be back."""
SHARE: Final = 0.95
PACE_S: Final = 0.1
"""The pause between two submits of a caller: a load that the machine can carry, also while others use it."""
CALM: Final = Habits(pace_s=PACE_S)

ROOT: Final = Path(__file__).parents[2]

Site = AbstractAsyncContextManager[tuple[Load, Fault]]
Setting = Callable[[Path], Site]


class Result(Struct):
    name: str
    struck: int = 0
    jobs: int = 0
    before: float = 0.0
    after: float = 0.0
    back_s: float = 0.0
    recovery_s: float = 0.0
    wrong: list[str] = []


@asynccontextmanager
async def on_sqlite(folder: Path, fault: Fault, habits: Habits = CALM) -> AsyncIterator[tuple[Load, Fault]]:
    yield Load(f"sqlite:///{folder / 'ficha.db'}", folder, habits=habits), fault


def settings(server: FragileServer) -> dict[str, Setting]:
    """Every fault, with the load that it strikes."""

    @asynccontextmanager
    async def on_postgres(
        folder: Path, fault: Fault, habits: Habits = CALM, apart_s: int = 0
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
                yield Load(detour, folder, direct=url, habits=CALM), fault(network)

    @asynccontextmanager
    async def over_pooler(folder: Path) -> AsyncIterator[tuple[Load, Fault]]:
        async with new_database(server) as url:
            await PostgresStore(url).migrate()
            with pooled(url) as detour:
                yield Load(detour, folder, direct=url, habits=CALM), faults.kill_at_random

    @asynccontextmanager
    async def crashing(folder: Path) -> AsyncIterator[tuple[Load, Fault]]:
        # Without `new_database`, whose connection would not survive either.
        await PostgresStore(server.url()).migrate(0)
        await PostgresStore(server.url()).migrate()
        yield Load(server.url(), folder, habits=CALM), postgres_faults.crash_the_server(server, every_s=4.0)

    sweeping, deaf, disk = replace(CALM, leads_always=True), replace(CALM, hears=False), replace(CALM, disk=True)
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
        "SQLite: a reader stays": lambda f: on_sqlite(f, sqlite_faults.hold_a_reader),
        "SQLite: the clock is set ahead": lambda f: on_sqlite(f, faults.move_the_clock),
        "PostgreSQL: stopped in immediate mode": crashing,
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
    with tempfile.TemporaryDirectory(prefix="ficha-chaos-") as folder:
        try:
            async with setting(Path(folder)) as (load, fault), load:
                await asyncio.sleep(1.0)
                began_at = time.monotonic()
                await asyncio.sleep(MEASURED_S)
                result.before = load.rate(began_at, time.monotonic())
                result.struck = await fault(load, seconds)
                result.recovery_s = await load.settled(BOUND_S + SLACK_S)
                await _come_back(load, result)
                verdict = await load.finish(most_s=WITHIN_S)
                result.jobs = verdict.jobs
                result.wrong += verdict.wrong
        except Exception as error:
            result.wrong.append(f"{type(error).__name__}: {error}")
    return result


async def _come_back(load: Load, result: Result) -> None:
    """Waits until a whole stretch of the time after the fault has the throughput of before."""
    ended_at = time.monotonic()
    while True:
        await asyncio.sleep(0.5)
        now = time.monotonic()
        if now - ended_at >= MEASURED_S:
            result.after = max(result.after, load.rate(now - MEASURED_S, now))
            result.back_s = now - ended_at - MEASURED_S
        if result.after >= SHARE * result.before:
            return
        if result.back_s > WITHIN_S:
            result.wrong.append(
                f"after {WITHIN_S:.0f} s the throughput is {result.after:.0f}/s, not {result.before:.0f}/s"
            )
            return


async def cut_power(seconds: float) -> Result:
    result = Result("SQLite: power cut, unflushed writes lost")
    with tempfile.TemporaryDirectory(prefix="ficha-chaos-") as folder:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.chaos.power", folder, str(seconds), str(time.time_ns())),
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
        "`recovery`: seconds from the fault's end until every job active at that moment was at its end. `back`:",
        f"seconds until a stretch of {MEASURED_S:g} s began whose throughput was 95 % of that before. The load is an",
        "offered one, so a ratio above 1 is work caught up on, or noise of the machine.",
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
    found = f"WRONG: {len(r.wrong)}" if r.wrong else "clean"
    return (
        f"| {r.name} | {r.struck} | {r.jobs} | {r.before:.0f} | {r.after:.0f} | {ratio} | {r.recovery_s:.1f} "
        f"| {r.back_s:.1f} | {found} |"
    )


async def run(minutes: float, wanted: str) -> list[Result]:
    results: list[Result] = []
    with fragile_server() as server:
        chosen = {name: setting for name, setting in settings(server).items() if wanted.lower() in name.lower()}
        # Besides the fault itself, each load is measured before and after, started and drained.
        seconds = max(2.0, minutes * 60 / (len(chosen) + 1) - 2 * MEASURED_S - 4.0)
        for name, setting in chosen.items():
            results.append(await measure(name, setting, seconds))
            print(row(results[-1]), flush=True)
        if wanted.lower() in "sqlite: power cut":
            results.append(await cut_power(seconds))
            print(row(results[-1]), flush=True)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="for all faults together")
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
