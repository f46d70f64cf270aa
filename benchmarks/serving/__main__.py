"""`python -m benchmarks.serving`: takes the measures one after the other, and writes what was found."""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Console

from .. import machine
from ..databases import databases
from ..endurance.__main__ import _measure
from ..endurance.report import show
from . import report
from .sizes import QUICK, Size
from .streams import STREAMS
from .throughput import THROUGHPUT

MEASURES: Final = (STREAMS, THROUGHPUT)


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    chosen = [measure for measure in MEASURES if not options.only or measure.key in options.only]
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 160, highlight=False)
    size = _size(options)
    with databases(options.database) as kinds, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        facts = runner.run(machine.facts(kinds, "uvloop"))
        found = runner.run(_measure(chosen, kinds, size, console))
    if (folder := _folder(options)) is not None:
        report.write(facts, size, found, folder)
    show(found, Console(width=None if sys.stdout.isatty() else 160))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description="Measures what a server takes.")
    parser.add_argument("--quick", action="store_true", help="a smoke run whose figures mean nothing")
    keys = [measure.key for measure in MEASURES]
    parser.add_argument("--only", choices=keys, action="append", help="this measure instead of all; may be repeated")
    parser.add_argument("--database", choices=["postgres", "sqlite"], help="one database instead of both")
    parser.add_argument("--rate", type=int, help="submits a second beside the streams")
    parser.add_argument("--seconds", type=float, help="for how long")
    parser.add_argument("--streams", type=int, help="how many streams are open")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where results are written; a whole run's go to benchmarks/"
    )
    return parser.parse_args(arguments)


def _size(options: argparse.Namespace) -> Size:
    size = QUICK if options.quick else Size()
    given = {"rate": options.rate, "submit_s": options.seconds, "streams": options.streams}
    size = replace(size, **{name: value for name, value in given.items() if value is not None})
    if size.rate < 1 or size.submit_s <= 0 or size.streams <= size.account_streams:
        raise SystemExit(f"--rate and --seconds must be above zero, --streams above {size.account_streams}")
    return size


def _folder(options: argparse.Namespace) -> Path | None:
    """Where to write. A part of a run, or one of another size, must not take the place of a whole one's results."""
    is_whole = not any((options.quick, options.only, options.database, options.rate, options.seconds, options.streams))
    return options.output or (Path(__file__).parent.parent if is_whole else None)


if __name__ == "__main__":
    main()
