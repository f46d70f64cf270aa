"""Findings as a table of targets, Markdown, JSON and plots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .findings import Findings, Measure, Plot
from .sizes import Size


def write(facts: Mapping[str, str], size: Size, found: Mapping[Measure, Findings], folder: Path) -> None:
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    for findings in found.values():
        for plot in findings.plots:
            _draw(plot, plots / f"{plot.name}.png")
    (folder / "endurance.json").write_text(json.dumps(_as_json(facts, size, found), indent=2) + "\n", encoding="utf-8")
    (folder / "ENDURANCE.md").write_text(_markdown(facts, found), encoding="utf-8")


def _as_json(facts: Mapping[str, str], size: Size, found: Mapping[Measure, Findings]) -> dict[str, Any]:
    return {
        "machine": dict(facts),
        "size": asdict(size),
        "measures": {
            measure.key: {
                "verdicts": [asdict(verdict) for verdict in findings.verdicts],
                "figures": findings.figures,
            }
            for measure, findings in found.items()
        },
    }


def show(found: Mapping[Measure, Findings], console: Console) -> None:
    for measure, findings in found.items():
        targets = [(f"{measure.title}: targets", _targets(findings))] if findings.verdicts else []
        for title, (header, *rows) in [*findings.tables, *targets]:
            table = Table(title=title, title_justify="left")
            for number, name in enumerate(header):
                table.add_column(name, justify="right" if number else "left")
            for row in rows:
                table.add_row(*row)
            console.print(table)


def _targets(findings: Findings) -> list[list[str]]:
    return [
        ["", "target", "measured", "reached"],
        *([v.what, v.target, v.measured, "yes" if v.is_reached else "**no**"] for v in findings.verdicts),
    ]


def _markdown(facts: Mapping[str, str], found: Mapping[Measure, Findings]) -> str:
    lines = [
        "# Endurance",
        "",
        "Written by `python -m benchmarks.endurance`, the second half of `make bench`. Absolute figures move from run",
        "to run and from machine to machine; compare within one run.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
    ]
    for measure, findings in found.items():
        lines += [f"## {measure.title}", "", *(_table(_targets(findings)) if findings.verdicts else ())]
        for title, rows in findings.tables:
            lines += [f"### {title}", "", *_table(rows)]
        for plot in findings.plots:
            lines += [f"![{plot.title}](plots/{plot.name}.png)", ""]
        lines += [*(f"- {note}" for note in findings.notes), ""]
    return "\n".join(lines)


def _table(rows: list[list[str]]) -> list[str]:
    header, *rest = rows
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return [*(f"| {' | '.join(row)} |" for row in (header, rule, *rest)), ""]


def _draw(plot: Plot, path: Path) -> None:
    # Imported late: only a run that writes its results draws.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for name, points in plot.lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], label=name, marker=".")
    for begins, ends, name in plot.spans:
        axes.axvspan(begins, ends, alpha=0.12, color="gray", label=name)
    axes.set(title=plot.title, xlabel=plot.across, ylabel=plot.up, ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110, metadata={"Software": None})
