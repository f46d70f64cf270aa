"""Runs every query of the dashboard against a real Prometheus and draws the answers: docs/images/grafana.png.

    python deploy/grafana/picture.py --minutes 5

It starts the demonstration (examples/studio) with its visitors, and Debian's `prometheus`, which scrapes it every five
seconds, all on loopback; waits; asks what Grafana would ask; and draws the panels where the dashboard has them. It ends
with 1 if Prometheus refuses a query, or if one that is not listed in `MAY_BE_EMPTY` has no answer.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import matplotlib as mpl
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples/studio"))

from run import NO_TLS, Studio, free_port, studio  # noqa: E402 (the example is no package)

MAY_BE_EMPTY: Final = ("Batches, and their jobs",)
"""Panels with a query that has no answer while nothing of the kind happened: half of no batches have no size."""
SCRAPE_S: Final = 5
POINTS: Final = 120
BACKGROUND, PANEL, TEXT, DIM = "#111217", "#181b1f", "#d8d9da", "#8e9299"
COLOURS: Final = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#96d98d", "#ffb357")
STEPS: Final = {"green": "#73bf69", "yellow": "#f2cc0c", "red": "#f2495c"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long the demonstration runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/images/grafana.png")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ficha-picture-") as folder:
        data = Path(folder)
        with studio(f"sqlite:///{data / 'studio.db'}", data, seconds=4.0, visitors=True) as running:
            key = running.key("prometheus", "viewer")
            with prometheus(data, running, key) as server:
                began = time.time()
                time.sleep(asked.minutes * 60)
                running.run_ficha("verify")
                time.sleep(3 * SCRAPE_S)
                panels, wrong = answers(server, began, time.time())
    draw(panels, asked.out)
    for words in wrong:
        print(words, file=sys.stderr)
    print(f"{sum(len(panel['answers']) for panel in panels)} queries, {len(wrong)} of them wrong; drawn: {asked.out}")
    return 1 if wrong else 0


@contextmanager
def prometheus(folder: Path, running: Studio, key: str) -> Iterator[httpx.Client]:
    port, secret = free_port(), folder / "key"
    secret.write_text(key)
    (folder / "prometheus.yml").write_text(f"""
global: {{scrape_interval: {SCRAPE_S}s, evaluation_interval: {SCRAPE_S}s}}
rule_files: [{ROOT / "deploy/prometheus/alerts.yml"}]
scrape_configs:
  - job_name: ficha
    authorization: {{credentials_file: {secret}}}
    static_configs: [{{targets: ["{running.url.removeprefix("http://")}"]}}]
""")
    program = shutil.which("prometheus")
    assert program is not None, "install Debian's package prometheus"
    options = (f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'series'}")
    process = subprocess.Popen(  # noqa: S603 (Debian's prometheus)
        [program, *options, f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    )
    try:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, trust_env=False, verify=NO_TLS, timeout=30) as client:
            yield client
    finally:
        process.terminate()
        process.wait(30)


def answers(server: httpx.Client, began: float, ended: float) -> tuple[list[dict[str, Any]], list[str]]:
    """The panels with what Prometheus answers to each of their queries, and what is wrong with that."""
    found, wrong = [], []
    for panel in json.loads((ROOT / "deploy/grafana/ficha.json").read_text())["panels"]:
        panel["answers"] = []
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$job", "ficha").replace("$__rate_interval", "1m")
            asked = {"query": text, "start": began, "end": ended, "step": (ended - began) / POINTS}
            told = server.get("/api/v1/query_range", params=asked).json()
            if told["status"] != "success":
                wrong.append(f"{panel['title']}: {told}")
                continue
            lines = [
                (
                    _named(target["legendFormat"], line["metric"]),
                    [(float(at), float(value)) for at, value in line["values"]],
                )
                for line in told["data"]["result"]
            ]
            lines = [(name, [one for one in values if one[1] == one[1]]) for name, values in lines]
            if not any(values for _, values in lines) and panel["title"] not in MAY_BE_EMPTY:
                wrong.append(f"{panel['title']}: no answer to {text}")
            panel["answers"].append(lines)
        found.append(panel)
    return found, wrong


def _numbers(values: list[tuple[float, str]]) -> list[tuple[float, float]]:
    return [(float(at), float(value)) for at, value in values if value != "NaN"]


def _named(legend: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        legend = legend.replace("{{" + name + "}}", value)
    return "" if legend == "__auto" else legend


def draw(panels: list[dict[str, Any]], out: Path) -> None:
    mpl.rcParams.update(
        {"font.size": 7, "text.color": TEXT, "axes.labelcolor": DIM, "xtick.color": DIM, "ytick.color": DIM}
    )
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = plt.figure(figsize=(15, height * 0.27), facecolor=BACKGROUND)
    for panel in panels:
        place = panel["gridPos"]
        x, y = place["x"] / 24, 1 - (place["y"] + place["h"]) / height
        w, h = place["w"] / 24, place["h"] / height
        if panel["type"] == "row":
            figure.text(x + 0.004, y + h / 2, panel["title"], fontsize=10, fontweight="bold", va="center")
            continue
        frame = (x + 0.002, y + 0.001, w - 0.004, h - 0.003)
        figure.add_artist(mpl.patches.Rectangle(frame[:2], frame[2], frame[3], color=PANEL, zorder=-1))
        figure.text(x + 0.007, y + h - 0.0055, panel["title"], fontsize=8, va="top")
        (_stat if panel["type"] == "stat" else _lines)(figure, panel, (x, y, w, h))
    figure.savefig(out, dpi=100, facecolor=BACKGROUND)


def _stat(figure: Any, panel: dict[str, Any], place: tuple[float, float, float, float]) -> None:
    x, y, w, h = place
    values = [values for lines in panel["answers"] for _, values in lines if values]
    last = values[0][-1][1] if values else None
    defaults = panel["fieldConfig"]["defaults"]
    steps = [step for step in defaults["thresholds"]["steps"] if step["value"] is None or (last or 0) >= step["value"]]
    words = "none" if last is None else f"{last:.1f} s" if defaults["unit"] == "s" else f"{last:g}"
    figure.text(x + w / 2, y + h * 0.42, words, fontsize=20, ha="center", va="center", color=STEPS[steps[-1]["color"]])


def _lines(figure: Any, panel: dict[str, Any], place: tuple[float, float, float, float]) -> None:
    x, y, w, h = place
    axes = figure.add_axes((x + 0.024, y + h * 0.24, w - 0.032, h * 0.6), facecolor=PANEL)
    lines = [line for found in panel["answers"] for line in found if line[1]]
    defaults = panel["fieldConfig"]["defaults"]
    is_stacked = defaults["custom"]["stacking"]["mode"] == "normal"
    divided = 1e6 if defaults["unit"] == "bytes" else 1
    below: dict[float, float] = {}
    for number, (name, values) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        floor = [below.get(at, 0.0) if is_stacked else 0.0 for at, _ in values]
        tops = [value / divided + under for (_, value), under in zip(values, floor, strict=True)]
        below |= {at: top for (at, _), top in zip(values, tops, strict=True)}
        times = [at for at, _ in values]
        axes.plot(times, tops, color=colour, linewidth=1, label=name)
        axes.fill_between(times, floor, tops, color=colour, alpha=0.25 if is_stacked else 0.08, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.grid(color="#2c3235", linewidth=0.5)
    axes.xaxis.set_major_formatter(lambda at, _: time.strftime("%H:%M", time.gmtime(at)))
    axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(4))
    unit = {"s": " s", "bytes": " MB"}.get(defaults["unit"], "")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}{unit}")
    axes.yaxis.set_major_locator(mpl.ticker.MaxNLocator(4))
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(length=0)
    if not lines:
        axes.text(0.5, 0.5, "No data", transform=axes.transAxes, ha="center", color=DIM)
    elif len(lines) <= 12 and any(name for name, _ in lines):
        columns = min(len(lines), 4)
        axes.legend(
            loc="upper left", bbox_to_anchor=(-0.02, -0.14), ncol=columns, frameon=False, fontsize=6, borderpad=0
        )


if __name__ == "__main__":
    sys.exit(main())
