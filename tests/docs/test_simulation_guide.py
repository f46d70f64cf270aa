"""The guide to simulations: its files are read, and its example gives the figures that it tells."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ficha import Ficha, JobContext, Plan, Pool
from ficha.simulate.scenario import changed, today
from ficha.simulate.synthetic import described, synthetic_traffic

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/simulation.md").read_text()
STUDIO = ROOT / "examples/studio"


def application() -> Ficha:
    app = Ficha("memory:", plans=[Plan("free"), Plan("pro", per_hour=10)], pools=[Pool("gpu", slots=3)])

    @app.tool(pool="gpu", cost=5)
    async def upscale(job: JobContext) -> None: ...

    @app.tool(pool="gpu", cost=lambda seconds: 10 * seconds)
    async def video(job: JobContext, seconds: int) -> None: ...

    return app


def test_the_files_that_it_shows_are_read() -> None:
    app = application()
    scenario, traffic = (tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL))
    found = changed(today(app), scenario)
    assert (found.policy.plans["pro"].per_hour, found.pools["gpu"].slots, found.arrivals) == (None, 5, 1.3)
    described_week = described(traffic | {"jobs_per_day": 10}, app.policy.plans, app.tools)
    assert len(synthetic_traffic(described_week, app.tools, 1).arrivals) == 70


@pytest.mark.long
def test_its_example_gives_the_figures_that_it_tells() -> None:
    files = ("flat.toml", "two_slots.toml")
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("ficha"), "simulate", "--synthetic", "simulation/week.toml"),
            *("--today", "simulation/facts.toml", *(f"simulation/{name}" for name in files)),
        ],
        cwd=STUDIO, capture_output=True, text=True, timeout=110, check=True, env={**os.environ, "COLUMNS": "140"},
    )  # fmt: skip
    printed = {tuple(line.split("\t")[1:]) for line in done.stdout.splitlines()}
    [table] = re.findall(r"```text\n(.*?)```", GUIDE, re.DOTALL)
    told = {tuple(re.split(r"  +", line)) for line in table.splitlines() if line[:1].islower()}
    assert len(told) == 15
    assert {row for row in told if row not in {tuple(cell for cell in row if cell) for row in printed}} == set()
