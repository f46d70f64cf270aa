"""`python -m benchmarks.gpu`: a plain handler on a device, beside a bare loop. `--cpu` measures a stand-in instead."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from .. import machine
from ..databases import Kind, databases
from ..loops import LOOPS
from .rates import Rate, bare_rate, set_switch_interval, worker_rate
from .work import Shape, gpu_name, stand_in_shapes, torch_shapes

LAYERS: Final = 8
COLUMNS: Final = (
    *("calls", "database", "max_calls", "bare /s", "worker /s", "ratio", "target", "reached"),
    *("idle", "jobs a call", "set up"),
)


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    device = "none: a stand-in" if options.cpu else gpu_name()
    if device is None:
        print("PyTorch sees no GPU here: nothing was measured. `python -m benchmarks.gpu --cpu` measures a stand-in.")
        return
    set_switch_interval(options.switch_ms)
    shapes = stand_in_shapes() if options.cpu else torch_shapes(options.layers)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
    with databases(options.database) as kinds, asyncio.Runner(loop_factory=LOOPS[options.loop]) as runner:
        facts = runner.run(machine.facts(kinds, options.loop)) | {"device": device}
        figures = [
            figure
            for shape in shapes
            if shape.name.startswith(options.only or "")
            for figure in _figures(runner, kinds, shape, options, console)
        ]
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"machine": facts, "figures": figures}, indent=2)
        (options.output / "gpu.json").write_text(text + "\n", encoding="utf-8")
    _show(facts, figures)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="Measures how busy a device is kept.")
    parser.add_argument("--cpu", action="store_true", help="a stand-in: calls of 10 ms that release the GIL")
    parser.add_argument("--rounds", type=int, default=3, help="how often each rate is measured; the median counts")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long one rate is measured")
    parser.add_argument("--database", choices=["postgres", "sqlite"], help="one database instead of both")
    parser.add_argument("--only", metavar="NAME", help="only calls whose name starts so, as 128")
    parser.add_argument("--max-calls", type=int, action="append", help="calls under way; may be repeated [1 and 2]")
    parser.add_argument("--calls-held", type=int, help="groups of jobs that the worker holds")
    parser.add_argument("--layers", type=int, default=LAYERS, help=f"of the network, for longer calls [{LAYERS}]")
    parser.add_argument("--switch-ms", type=float, help="Python's switch interval, in milliseconds [5]")
    parser.add_argument("--loop", choices=list(LOOPS), default="asyncio", help="the event loop [asyncio]")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where gpu.json is written")
    return parser.parse_args(arguments)


def _figures(
    runner: asyncio.Runner, kinds: list[Kind], shape: Shape, options: argparse.Namespace, console: Console
) -> list[dict[str, Any]]:
    sides = [(kind, most) for kind in kinds for most in options.max_calls or (1, 2)]
    bare: list[float] = []
    rates: dict[tuple[Kind, int], list[Rate]] = {side: [] for side in sides}
    for number in range(options.rounds):
        # Beside each other in every round, so that a device that slows down does so for all.
        with console.status(f"{shape.name}, round {number + 1}: bare loop"):
            bare.append(bare_rate(shape, options.seconds))
        jobs = max(shape.batch, round(bare[0] * options.seconds / shape.batch) * shape.batch)
        for kind, most in sides:
            with console.status(f"{shape.name}, round {number + 1}: {kind.name}, max_calls={most}"):
                found = worker_rate(kind, shape, jobs, max_calls=most, calls_held=options.calls_held)
                rates[kind, most].append(runner.run(found))
    return [_figure(shape, kind, most, bare, rates[kind, most]) for kind, most in sides]


def _figure(shape: Shape, kind: Kind, max_calls: int, bare: list[float], rates: list[Rate]) -> dict[str, Any]:
    loop, worker = statistics.median(bare), statistics.median(rate.per_second for rate in rates)
    sizes = [size for rate in rates for size in rate.calls.sizes]
    return {
        "calls": f"{shape.name}, {shape.batch} a call",
        "database": kind.name,
        "max_calls": max_calls,
        "bare_per_second": round(loop, 1),
        "worker_per_second": round(worker, 1),
        "ratio": round(worker / loop, 3),
        "target": shape.target,
        "is_reached": worker / loop >= shape.target,
        "idle_share": round(statistics.median(rate.calls.idle_s / rate.seconds for rate in rates), 4),
        "jobs_per_call": round(statistics.mean(sizes), 2),
        "set_up": [len(rate.calls.threads) for rate in rates],
        "rounds": {"bare": [round(rate, 1) for rate in bare], "worker": [round(rate.per_second, 1) for rate in rates]},
    }


def _show(facts: dict[str, str], figures: list[dict[str, Any]]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 150)
    for name, value in facts.items():
        console.print(f"{name}: {value}", highlight=False)
    table = Table()
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("calls", "database") else "right")
    for figure in figures:
        table.add_row(
            figure["calls"],
            figure["database"],
            str(figure["max_calls"]),
            f"{figure['bare_per_second']:,.0f}",
            f"{figure['worker_per_second']:,.0f}",
            f"{figure['ratio']:.3f}",
            f"{figure['target']:.2f}",
            "yes" if figure["is_reached"] else "no",
            f"{figure['idle_share']:.1%}",
            f"{figure['jobs_per_call']:.1f}",
            ", ".join(map(str, figure["set_up"])),
        )
    console.print(table)


if __name__ == "__main__":
    main()
