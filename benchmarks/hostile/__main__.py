"""`python -m benchmarks.hostile`: measures what each attack takes from honest accounts, and writes what was found."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import uvloop
from rich.console import Console

from .. import machine
from ..databases import databases
from ..endurance.findings import Findings, Measure
from ..endurance.report import _table, _targets, show
from .attacks import ATTACKS
from .measure import take
from .sizes import QUICK, Size


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    size = QUICK if options.quick else Size()
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 160, highlight=False)
    began_at = time.monotonic()

    def say(text: str) -> None:
        console.print(f"{time.monotonic() - began_at:6.0f} s  {text}")

    with databases(options.database) as kinds, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        facts = runner.run(machine.facts(kinds, "uvloop"))
        found = runner.run(take(kinds, size, say, options.only or ()))
    is_whole = not (options.quick or options.database or options.only)
    if (folder := options.output or (Path(__file__).parent.parent if is_whole else None)) is not None:
        _write(facts, size, found, folder)
    show({Measure("hostile", "Hostile", take): found}, Console(width=None if sys.stdout.isatty() else 200))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hostile", description="Measures what one hostile account takes from the others."
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run whose figures mean nothing")
    parser.add_argument(
        "--only", choices=[*ATTACKS], action="append", help="this attack instead of all; may be repeated"
    )
    parser.add_argument("--database", choices=["postgres", "sqlite"], help="one database instead of both")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where results are written; a whole run's go to benchmarks/"
    )
    return parser.parse_args(arguments)


def _write(facts: Mapping[str, str], size: Size, found: Findings, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"machine": dict(facts), "size": asdict(size), "figures": found.figures}
    (folder / "hostile.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    lines = [
        "# One hostile account",
        "",
        "Written by `python -m benchmarks.hostile`. Absolute figures move from run to run and from machine to machine;",
        "compare within one run.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        "## What the others keep",
        "",
        *_table(_targets(found)),
    ]
    for title, rows in found.tables:
        lines += [f"### {title}", "", *_table(rows)]
    lines += [*(f"- {note}" for note in found.notes), ""]
    (folder / "HOSTILE.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
