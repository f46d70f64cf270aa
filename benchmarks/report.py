"""Results for people and programs: tables for the terminal, Markdown and JSON for later, plots beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from . import charts
from .footprint import SHOWN
from .results import CEILING_OF, Results
from .targets import CEILING, FASTEST, OURS

NOTHING: Final = "–"  # noqa: RUF001 (a dash, as in any table)

# What each measurement did, for whoever reads the results without the code.
NOTES: Final = """\
- **submit**: each caller submits one job per call and waits for the answer; p50 and p99 are those waits. Callers are
  tasks of one event loop, or threads where a peer's calls block.
- **whole life**: the same while eight loops claim and finish many at once, until the last job has ended. A peer whose
  jobs only its own worker can take runs that worker instead.
- **claim and finish**: the same eight loops on a full queue, without a worker around them.
- **worker**: the peer's own worker runs a handler that does nothing, in the process that filled the queue. **Worker
  processes** do the same, started and warmed before the queue is filled and told together to work; it ends with the
  last durable end of any of them, and the processor time is that of all of them. Ficha's exclude
  what they have loaded from garbage collection, as `ficha worker` does.
- **submit to handler**: a worker has nothing to do; jobs are submitted one at a time, each 5 to 15 ms after the handler
  of the one before; the time is that from just before the call to the handler's first line. In two processes, one
  submits and the other works, and both look at the machine's monotonic clock.
- **raw ceiling**: the rows that Ficha writes for the same jobs, written by the same statements in the same full
  transactions, prepared, each one durable, over as many connections as Ficha writes with; no rules, no engine, nothing
  read. Ficha then has to find all its invariants in what was written. For submits by many callers it is that of a bulk.
- Client and worker are one Python process where nothing else is said. Each figure is the median of the rounds, each
  taken on a fresh database after a warm-up; peers take turns. A ratio is the median of the ratios within each round,
  above 1 where Ficha is faster. What a peer can be set to stands beside its version: before the first round it emptied
  a smaller queue with several settings, and has kept the fastest.
- **processor time**: of that one process, or of the workers where they have processes of their own, per job; other work
  on the machine hardly moves it. SQLite runs inside the process and is counted with it; PostgreSQL's own time is not.
- **bytes of a finished life**: 10,000 jobs, of 500 accounts and with keys where a peer has such, submitted in bulk and
  run by the peer's own worker, after a warm-up. Storage is what all tables and indexes have grown by, after a `VACUUM`;
  the log is PostgreSQL's write-ahead log.
- After each measurement the peer has to prove its work: all jobs are there and have ended; on Ficha, every invariant
  holds and each job was charged once."""


def write(results: Results, folder: Path) -> None:
    found = results.as_json()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    plots = charts.draw(results, found, folder / "plots")
    (folder / "RESULTS.md").write_text(_markdown(results, found, plots), encoding="utf-8")


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
    reached = found["targets"] or found["limits"] or found["byte_limits"]
    tables = [("Targets", _targets(results, found))] if reached else []
    for name in found["databases"]:
        if len(rates := _figures(results, found, name, waits=False)) > 1:
            tables.append((f"{name}: jobs per second", rates))
        if len(waits := _figures(results, found, name, waits=True)) > 1:
            tables.append((f"{name}: from submit to the handler's start, p50 / p99 in ms", waits))
        if found["ratios"][name]:
            tables.append((f"{name}: how many times as fast Ficha is", _ratios(results, found, name)))
    if found["bytes"]:
        tables.append(("PostgreSQL: bytes of a finished life", _bytes(found["bytes"])))
        tables.append(("PostgreSQL: what Ficha's consist of", _relations(found["bytes"][OURS]["relations"])))
    times = _processor_times(results, found)
    return [*tables, ("Processor time per job, µs", times)] if len(times) > 1 else tables


def _targets(results: Results, found: dict[str, Any]) -> list[list[str]]:
    rows = [["", "measured", "ratio", "target", "reached"]]
    for target in found["targets"]:
        ours, theirs = results.title(target["key"]), results.title(target["theirs"])
        fastest = f"the faster of {' and '.join(target['among'])}" if target["among"] else "the fastest peer's"
        beside = f"{fastest}, {target['peer']}'s" if target["is_fastest"] else f"{target['peer']}'s"
        if target["peer"] == CEILING:
            beside = "the raw ceiling"
        elif ours != theirs:
            beside += f" {theirs}"
        rows.append(
            [
                f"{target['database']}: {ours}, beside {beside}",
                _pair(target, is_wait=results.measurement(target["key"]).is_wait),
                f"{target['ratio']:.2f}",
                f"≥ {target['least']:g}",
                "yes" if target["reached"] else "no",
            ]
        )
    for limit in found["limits"]:
        what = f"{limit['database']}: {results.title(limit['key'])}, p50"
        reached = "yes" if limit["reached"] else "no"
        rows.append([what, f"{limit['p50_ms']:.2f} ms", NOTHING, f"< {limit['under_ms']:g} ms", reached])
    for limit in found["byte_limits"]:
        what = f"PostgreSQL: {limit['what']} of a finished life"
        reached = "yes" if limit["reached"] else "no"
        rows.append([what, f"{limit['bytes']:,} bytes", NOTHING, f"≤ {limit['most']:,} bytes", reached])
    return rows


def _bytes(footprints: dict[str, Any]) -> list[list[str]]:
    return [
        ["", *footprints],
        *([what, *(f"{found[what]:,}" for found in footprints.values())] for what in ("storage", "log")),
    ]


def _relations(sizes: dict[str, int]) -> list[list[str]]:
    return [["table or index", "bytes"], *([name, f"{size:,}"] for name, size in list(sizes.items())[:SHOWN])]


def _pair(target: dict[str, Any], *, is_wait: bool) -> str:
    """Ours and theirs: jobs per second, or the p50 of a wait."""
    ours, theirs = target["ours_per_second"], target["theirs_per_second"]
    return f"{1_000 / ours:.2f} : {1_000 / theirs:.2f} ms" if is_wait else f"{ours:,.0f} : {theirs:,.0f} /s"


def _figures(results: Results, found: dict[str, Any], database: str, *, waits: bool) -> list[list[str]]:
    """A line per measurement that was taken, a column per peer."""
    peers = found["databases"][database]
    rows = [["", *(peer for peer in peers if not (waits and peer == CEILING))]]
    for m in results.measurements:
        if m.is_wait != waits or database not in m.databases:
            continue
        row = [m.title]
        for peer in rows[0][1:]:
            figure = peers[peer].get(CEILING_OF.get(m.key, "") if peer == CEILING else m.key)
            row.append(_figure(figure, is_wait=waits) if figure else NOTHING)
        rows.append(row)
    return rows


def _ratios(results: Results, found: dict[str, Any], database: str) -> list[list[str]]:
    """The same lines with our ratio to each; then our whole life beside their bare submit."""
    ratios, fastest = found["ratios"][database], found["fastest"][database]
    titles = {m.key: (m.title, m.key) for m in results.measurements if database in m.databases}
    for name, life, submit in results.lives():
        titles[name] = (f"our {results.title(life)} : their submit", submit)
    rows = [["", *(f"to {'the ' if peer in (FASTEST, CEILING) else ''}{peer}" for peer in ratios)]]
    for key, (title, theirs) in titles.items():
        row = [title]
        for peer, by_key in ratios.items():
            ratio = f"{by_key[key]:.2f}" if key in by_key else NOTHING
            row.append(f"{ratio} ({fastest[theirs]})" if peer == FASTEST and key in by_key else ratio)
        rows.append(row)
    return rows


def _processor_times(results: Results, found: dict[str, Any]) -> list[list[str]]:
    sides = [(name, peer) for name, peers in found["databases"].items() for peer in peers]
    rows = [["", *(f"{peer}, {name}" for name, peer in sides)]]
    for m in results.measurements:
        figures = [found["databases"][name][peer].get(m.key) for name, peer in sides]
        rows.append([m.title, *(f"{figure['cpu_us']:,.0f}" if figure else NOTHING for figure in figures)])
    return rows


def _figure(summary: dict[str, Any], *, is_wait: bool) -> str:
    if is_wait:
        return f"{summary['p50_ms']:.2f} / {summary['p99_ms']:.2f}"
    rate = f"{summary['per_second']:,.0f}"
    return f"{rate} ({summary['p50_ms']:.1f} / {summary['p99_ms']:.1f} ms)" if "p50_ms" in summary else rate


def _markdown(results: Results, found: dict[str, Any], plots: list[tuple[str, str]]) -> str:
    size = results.size
    lines = [
        "# Results",
        "",
        "Written by `make bench`. Beside the rate of submits stand the p50 / p99 of a caller's wait. Absolute figures",
        "move by a third and more from run to run and from machine to machine; compare within one run.",
        "",
        *(f"- {name}: {value}" for name, value in found["machine"].items()),
        f"- rounds: {size.rounds}; seconds of submits: {size.seconds:g}; jobs in bulk: {size.jobs:,}; "
        f"handlers waited for: {size.waits}",
        *(f"- a job's life in {peer}: {does}" for peer, does in found["peers"].items()),
        "",
    ]
    for title, (header, *rows) in _tables(results, found):
        lines += [f"## {title}", "", _line(header), _line(["---"] + ["---:"] * (len(header) - 1))]
        lines += [_line(row) for row in rows]
        lines.append("")
    lines += ["## Plots", ""]
    for title, file in plots:
        lines += [f"![{title}](plots/{file})", ""]
    notes = "\n".join([NOTES, *(f"- {remark}" for remark in found["remarks"])])
    return "\n".join([*lines, "## What was measured", "", notes, ""])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
