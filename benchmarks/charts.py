"""The results as plots. Colours are those of Okabe and Ito, which colour-blind people can tell apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .results import CEILING_OF, Results
from .targets import CEILING

COLOURS: Final = {
    "Ficha": "#0072B2",
    "PgQueuer": "#E69F00",
    "awa": "#009E73",
    "Procrastinate": "#CC79A7",
    "huey": "#D55E00",
}
INK: Final = "#333333"
COLUMNS: Final = 3
# Text stays text, and nothing depends on when it was drawn: two runs differ only where their figures do.
STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ficha",
    "font.family": "sans-serif",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def draw(results: Results, found: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    """Writes the plots; the title and the file's name of each."""
    folder.mkdir(parents=True, exist_ok=True)
    plots: list[tuple[str, str]] = []
    with rc_context(STYLE):
        for database, peers in found["databases"].items():
            plots.append((f"{database}: jobs per second", f"{database.lower()}.svg"))
            _save(_rates(results, peers, plots[-1][0]), folder / plots[-1][1])
            if any("p50_ms" in figure for figures in peers.values() for figure in figures.values()):
                plots.append(
                    (
                        f"{database}: how long a submit and its handler's start take",
                        f"{database.lower()}-waits.svg",
                    )
                )
                _save(_waits(results, peers, plots[-1][0]), folder / plots[-1][1])
    return plots


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})


def _rates(results: Results, peers: dict[str, Any], title: str) -> Figure:
    """A panel per measurement, a bar per peer, a dot per round, and the ceiling as a line above those it bounds."""
    drawn = [m for m in results.measurements if not m.is_wait and any(m.key in figures for figures in peers.values())]
    lines = max(1, -(-len(drawn) // COLUMNS))
    figure = Figure(figsize=(7.5, 0.5 + 1.75 * lines), layout="constrained")
    figure.suptitle(f"{title} (bar: median, dots: rounds)")
    panels = figure.subplots(lines, COLUMNS, squeeze=False).flat
    for panel in panels:
        panel.set_axis_off()
    for panel, m in zip(figure.axes, drawn, strict=False):
        panel.set_axis_on()
        panel.set_title(m.title, fontsize=8)
        sides = [peer for peer in peers if peer != CEILING]
        for x, peer in enumerate(sides):
            _bar(panel, x, COLOURS[peer], peers[peer].get(m.key))
        if ceiling := peers.get(CEILING, {}).get(CEILING_OF.get(m.key, "")):
            panel.axhline(ceiling["per_second"], color=INK, linestyle="--", linewidth=1)
            text = panel.annotate(
                f"raw ceiling {ceiling['per_second']:,.0f}",
                (1, ceiling["per_second"]),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right",
                fontsize=7,
            )
            text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})
        panel.set_xticks(range(len(sides)), sides, fontsize=7)
        panel.set_xlim(-0.6, len(sides) - 0.4)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
        panel.margins(y=0.15)
    return figure


def _bar(panel: Axes, x: int, colour: str, summary: dict[str, Any] | None) -> None:
    """A peer's place in a panel; it stays empty where the peer has no figure."""
    rounds = summary["rounds"] if summary else [0.0]
    if summary:
        panel.bar(x, summary["per_second"], color=colour, width=0.75)
        panel.plot([x] * len(rounds), rounds, "o", color=INK, markersize=2)
    panel.annotate(
        f"{summary['per_second']:,.0f}" if summary else "none",
        (x, max(rounds)),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=7,
    )


def _waits(results: Results, peers: dict[str, Any], title: str) -> Figure:
    """For each wait, a mark at each peer's p50 and a line from there to its p99."""
    waits = [m for m in results.measurements if any("p50_ms" in f.get(m.key, ()) for f in peers.values())]
    figure = Figure(figsize=(7.5, 2.6), layout="constrained")
    panel: Axes = figure.subplots()
    figure.suptitle(f"{title} (mark: p50, end of the line: p99)")
    sides = [peer for peer in peers if peer != CEILING]
    for number, peer in enumerate(sides):
        points = [(x, figure_) for x, m in enumerate(waits) if (figure_ := peers[peer].get(m.key))]
        xs = [x + (number - (len(sides) - 1) / 2) * 0.16 for x, _ in points]
        low = [point["p50_ms"] for _, point in points]
        high = [point["p99_ms"] for _, point in points]
        panel.vlines(xs, low, high, color=COLOURS[peer], linewidth=2)
        panel.plot(xs, low, "o", color=COLOURS[peer], markersize=5, label=peer)
    panel.set_xticks(range(len(waits)), [m.title.replace(", ", "\n") for m in waits])
    panel.set_yscale("log")
    panel.set_ylabel("ms")
    panel.yaxis.set_major_formatter("{x:g}")
    panel.grid(axis="y", color="#DDDDDD", linewidth=0.5)
    panel.legend(frameon=False, fontsize=7, loc="upper left")
    return figure
