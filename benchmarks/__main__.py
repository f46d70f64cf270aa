"""`python -m benchmarks`: takes the measurements, peers in turn, and writes what came out."""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Console

from . import machine, report
from .databases import Kind, Postgres, databases
from .ficha_side import FichaSide
from .measurements import measurements, sample
from .peer import Peer
from .pgqueuer_side import PgQueuerSide
from .workload import QUICK, Size

PEERS: Final[dict[str, list[type[Peer]]]] = {
    "PostgreSQL": [FichaSide, PgQueuerSide],
    "SQLite": [FichaSide],
}
BATCHES: Final = (50, 100, 200, 500, 1_000)
"""Among these PgQueuer's best batch size is looked for."""
LOOPS: Final = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    size = _size(options)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
    with databases(options.only) as kinds, asyncio.Runner(loop_factory=LOOPS[options.loop]) as runner:
        results = runner.run(_measure(kinds, size, options, console))
    if (folder := _folder(options)) is not None:
        report.write(results, folder)
    report.show(results, Console(width=None if sys.stdout.isatty() else 120))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures Ficha and its peers.")
    parser.add_argument("--quick", action="store_true", help="a smoke run whose figures mean nothing")
    parser.add_argument("--rounds", type=int, help="how often each measurement is taken")
    parser.add_argument("--seconds", type=float, help="how long callers submit in one measurement")
    parser.add_argument("--jobs", type=int, help="jobs in bulk, and in a queue that is emptied")
    parser.add_argument("--only", choices=["postgres", "sqlite"], help="one database instead of both")
    parser.add_argument("--measure", metavar="KEY", help="only measurements whose key starts so, such as submit_64")
    parser.add_argument(
        "--loop", choices=list(LOOPS), default="uvloop", help="the event loop, for all peers (uvloop is PgQueuer's own)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where results are written; a whole run's go to benchmarks/"
    )
    return parser.parse_args(arguments)


def _folder(options: argparse.Namespace) -> Path | None:
    """Where to write. A part of a run, or a quick one, must not take the place of a whole one's results."""
    is_whole = not (options.quick or options.only or options.measure)
    return options.output or (Path(__file__).parent if is_whole else None)


def _size(options: argparse.Namespace) -> Size:
    given = {name: value for name in ("rounds", "seconds", "jobs") if (value := getattr(options, name)) is not None}
    if any(value <= 0 for value in given.values()):
        raise SystemExit("--rounds, --seconds and --jobs must be above zero")
    return replace(QUICK if options.quick else Size(), **given)


async def _measure(kinds: list[Kind], size: Size, options: argparse.Namespace, console: Console) -> report.Results:
    if machine.is_busy() and not options.quick:
        console.print("[yellow]the machine is busy with other work: do not trust absolute figures")
    chosen = tuple(m for m in measurements() if m.key.startswith(options.measure or ""))
    if not chosen:
        raise SystemExit(f"no measurement starts with {options.measure!r}")
    results = report.Results(await machine.facts(kinds, options.loop), size, chosen)
    for kind in kinds:
        peers = PEERS[kind.name]
        results.does |= {peer.name: peer.does for peer in peers}
        if isinstance(kind, Postgres) and not options.quick and any(not m.is_submit for m in chosen):
            PgQueuerSide.batch = await _best_batch(kind, size)
            results.facts["PgQueuer"] += f", batches of {PgQueuerSide.batch}"
        for number in range(size.rounds):
            for measurement in chosen:
                # Every other round the other way round, so that nobody always comes first.
                for peer in peers if number % 2 == 0 else reversed(peers):
                    with console.status(f"{kind.name}, round {number + 1}: {measurement.title}, {peer.name}"):
                        found = await sample(measurement, peer(), kind, size)
                    results.add(kind.name, peer.name, measurement.key, found)
    return results


async def _best_batch(kind: Kind, size: Size) -> int:
    """PgQueuer's best batch size on this machine, by emptying a smaller queue with each."""
    work = next(m for m in measurements() if m.key == "work")
    rates: dict[int, float] = {}
    for batch in BATCHES:
        PgQueuerSide.batch = batch
        rates[batch] = (await sample(work, PgQueuerSide(), kind, replace(size, jobs=-(-size.jobs // 2)))).per_second
    return max(rates, key=lambda batch: rates[batch])


if __name__ == "__main__":
    main()
