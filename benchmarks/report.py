"""Samples as results: medians, ratios within each round, a table for the terminal, JSON and Markdown for later."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .measurements import Measurement, Sample
from .workload import CALLERS, Size

OURS = "Ficha"

# What each measurement did, for whoever reads the results without the code.
NOTES = """\
- **submit**: each caller submits one job per call and waits for the answer; p50 and p99 are those waits.
- **whole life**: the same while four loops claim and finish in batches, until the last job has ended.
- **claim and finish**: the same four loops on a full queue, without a worker around them.
- **worker**: the peer's own worker runs a handler that does nothing.
- Client and worker are one Python process. Each figure is the median of the rounds, each taken on a fresh database
  after a warm-up; peers take turns. A ratio is the median of the ratios within each round, above 1 where Ficha is
  faster.
- **client's processor time**: of that one process, per job; other work on the machine hardly moves it. SQLite runs
  inside the process and is counted with it; PostgreSQL's own time is not.
- After each measurement the peer has to prove its work: all jobs are there and have ended; on Ficha, every invariant
  holds and each job was charged once."""


@dataclass
class Results:
    """All samples of a run: database → peer → measurement → one sample per round."""

    facts: dict[str, str]
    size: Size
    measurements: tuple[Measurement, ...]
    does: dict[str, str] = field(default_factory=dict)
    samples: dict[str, dict[str, dict[str, list[Sample]]]] = field(default_factory=dict)

    def add(self, database: str, peer: str, key: str, sample: Sample) -> None:
        self.samples.setdefault(database, {}).setdefault(peer, {}).setdefault(key, []).append(sample)

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.facts,
            "size": asdict(self.size),
            "peers": self.does,
            "databases": {
                database: {
                    peer: {key: _summary(samples) for key, samples in by_key.items()} for peer, by_key in peers.items()
                }
                for database, peers in self.samples.items()
            },
            "ratios": {
                database: {
                    peer: {key: _ratio(peers[OURS][key], by_key[key]) for key in by_key}
                    | {name: _ratio(peers[OURS][life], by_key[submit]) for name, life, submit in self.lives()}
                    for peer, by_key in peers.items()
                    if peer != OURS
                }
                for database, peers in self.samples.items()
            },
        }

    def lives(self) -> list[tuple[str, str, str]]:
        """Our whole life beside a peer's bare submit, where both were measured: its key and those of the two."""
        measured = {measurement.key for measurement in self.measurements}
        pairs = [(f"life_{n}_to_submit_{n}", f"life_{n}", f"submit_{n}") for n in CALLERS]
        return [pair for pair in pairs if measured.issuperset(pair[1:])]


def _summary(samples: list[Sample]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "per_second": round(statistics.median(sample.per_second for sample in samples), 1),
        "rounds": [round(sample.per_second, 1) for sample in samples],
        "cpu_us": round(statistics.median(sample.cpu_us for sample in samples), 1),
    }
    for name in ("p50_ms", "p99_ms"):
        values = [value for sample in samples if (value := getattr(sample, name)) is not None]
        if values:
            found[name] = round(statistics.median(values), 2)
    return found


def _ratio(ours: list[Sample], theirs: list[Sample]) -> float:
    return round(statistics.median(a.per_second / b.per_second for a, b in zip(ours, theirs, strict=True)), 2)


def write(results: Results, folder: Path) -> None:
    found = results.as_json()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (folder / "RESULTS.md").write_text(_markdown(results, found), encoding="utf-8")


def show(results: Results, console: Console) -> None:
    for title, (header, *rows) in _tables(results, results.as_json()):
        table = Table(title=title, title_justify="left")
        for number, name in enumerate(header):
            table.add_column(name, justify="right" if number else "left")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def _tables(results: Results, found: dict[str, Any]) -> list[tuple[str, list[list[str]]]]:
    """Each table with its title, its first row the header."""
    rates = [(f"{name}: jobs per second", _rates(results, found, name)) for name in found["databases"]]
    return [*rates, ("Client's processor time per job, µs", _processor_times(results, found))]


def _processor_times(results: Results, found: dict[str, Any]) -> list[list[str]]:
    sides = [(name, peer) for name, peers in found["databases"].items() for peer in peers]
    rows = [["", *(f"{peer}, {name}" for name, peer in sides)]]
    for m in results.measurements:
        rows.append([m.title, *(f"{found['databases'][name][peer][m.key]['cpu_us']:,.0f}" for name, peer in sides)])
    return rows


def _rates(results: Results, found: dict[str, Any], database: str) -> list[list[str]]:
    """A line per measurement; a column per peer, and one for our ratio to it."""
    peers, ratios = found["databases"][database], found["ratios"][database]
    others = [peer for peer in peers if peer != OURS]
    rows = [["", *peers, *(f"{OURS} : {peer}" for peer in others)]]
    for m in results.measurements:
        rows.append(
            [m.title, *(_figure(peers[peer][m.key]) for peer in peers), *(f"{ratios[p][m.key]:.2f}" for p in others)]
        )
    titles = {m.key: m.title for m in results.measurements}
    for key, life, submit in results.lives() if others else ():
        theirs = [f"{peers[peer][submit]['per_second']:,.0f}" for peer in others]
        rows.append(
            [
                f"our {titles[life]} : their {titles[submit].partition(',')[0]}",
                _figure(peers[OURS][life]),
                *theirs,
                *(f"{ratios[peer][key]:.2f}" for peer in others),
            ]
        )
    return rows


def _figure(summary: dict[str, Any]) -> str:
    rate = f"{summary['per_second']:,.0f}"
    return f"{rate} ({summary['p50_ms']:.1f} / {summary['p99_ms']:.1f} ms)" if "p50_ms" in summary else rate


def _markdown(results: Results, found: dict[str, Any]) -> str:
    size = results.size
    lines = [
        "# Results",
        "",
        "Written by `make bench`. Beside the rate of submits stand the p50 / p99 of a caller's wait. Absolute figures",
        "move by a third and more from run to run and from machine to machine; compare within one run.",
        "",
        *(f"- {name}: {value}" for name, value in found["machine"].items()),
        f"- rounds: {size.rounds}; seconds of submits: {size.seconds:g}; jobs in bulk: {size.jobs:,}",
        *(f"- a job's life in {peer}: {does}" for peer, does in found["peers"].items()),
        "",
    ]
    for title, (header, *rows) in _tables(results, found):
        lines += [f"## {title}", "", _line(header), _line(["---"] + ["---:"] * (len(header) - 1))]
        lines += [_line(row) for row in rows]
        lines.append("")
    return "\n".join([*lines, "## What was measured", "", NOTES, ""])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
