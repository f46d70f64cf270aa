"""`python -m benchmarks.endurance`: takes the measures one after the other, and writes what was found."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Console

from .. import machine
from ..databases import Kind, databases
from . import report
from .findings import Findings, Measure
from .flat import FLAT
from .long_transaction import LONG
from .memory import MEMORY
from .polls import POLLS
from .scale import SCALE
from .sizes import QUICK, Size

MEASURES: Final = (FLAT, POLLS, LONG, SCALE, MEMORY)


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    chosen = [measure for measure in MEASURES if not options.only or measure.key in options.only]
    size = QUICK if options.quick else Size()
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 160, highlight=False)
    with databases(options.database) as kinds, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        facts = runner.run(machine.facts(kinds, "uvloop"))
        found = runner.run(_measure(chosen, kinds, size, console))
    if (folder := _folder(options)) is not None:
        report.write(facts, size, found, folder)
    report.show(found, Console(width=None if sys.stdout.isatty() else 160))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.endurance", description="Measures what shows only with size and time."
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run whose figures mean nothing")
    keys = [measure.key for measure in MEASURES]
    parser.add_argument("--only", choices=keys, action="append", help="this measure instead of all; may be repeated")
    parser.add_argument("--database", choices=["postgres", "sqlite"], help="one database instead of both")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where results are written; a whole run's go to benchmarks/"
    )
    return parser.parse_args(arguments)


def _folder(options: argparse.Namespace) -> Path | None:
    """Where to write. A part of a run, or a quick one, must not take the place of a whole one's results."""
    is_whole = not (options.quick or options.only or options.database)
    return options.output or (Path(__file__).parent.parent if is_whole else None)


async def _measure(
    chosen: Sequence[Measure], kinds: Sequence[Kind], size: Size, console: Console
) -> dict[Measure, Findings]:
    if machine.is_busy():
        console.print("the machine is busy with other work: do not trust absolute figures")
    began_at = time.monotonic()

    def say(text: str) -> None:
        console.print(f"{time.monotonic() - began_at:6.0f} s  {text}")

    found: dict[Measure, Findings] = {}
    for measure in chosen:
        say(measure.title)
        found[measure] = await measure.take(kinds, size, say)
    return found


if __name__ == "__main__":
    main()
