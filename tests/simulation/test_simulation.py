"""Hundreds of seeds: the real engine, rules and workers in virtual time, under every fault at once.

A seed that ever failed goes into REGRESSIONS with the sentence that it broke, and stays. Many more are run with
`python -m tests.simulation --seeds 10000`.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import ficha

from .__main__ import told
from .sandbox import escapes
from .world import Report, World

SEEDS = 240
SOON = 20
"""Those that `make test` runs; the rest is for `make test-all`."""
CHUNK = 10

REGRESSIONS: dict[int, str] = {
    40_313: "the simulated database let a commit be marked while a cut-off one before it still held the marker's row",
    3_100_724: "the operator resumed a pool while a server still had a call to pause it, whose caller was gone",
    2_007_909: "the watcher took a job for running that the same commit had put back into the queue before",
    1_003_772: "the history forbade a second job from a payload that was sent again with the key of a refused submit",
    6_003_323: "bytes that a suspended process sent late lay in the storage for good",
}
"""seed → what it broke"""

ROOT = Path(__file__).parents[2]


def run(seed: int) -> Report:
    report = World(seed).run()
    assert not report.wrong, told(report)
    return report


@pytest.mark.req("A1", "A5", "A6", "A7", "B3", "B4", "B5", "B10", "C1", "C2", "D1")
@pytest.mark.parametrize(
    "first",
    [*range(0, SOON, CHUNK), *(pytest.param(first, marks=pytest.mark.long) for first in range(SOON, SEEDS, CHUNK))],
)
def test_whatever_happens_every_promise_is_kept(first: int) -> None:
    reports = [run(seed) for seed in range(first, first + CHUNK)]
    assert sum(report.jobs for report in reports) > CHUNK, "hardly anything was submitted"
    assert len({report.digest for report in reports}) == CHUNK, "two seeds mean the same"


def test_a_seed_that_failed_once_does_not_fail_again() -> None:
    for seed in REGRESSIONS:
        run(seed)


def test_the_same_seed_gives_the_same_trace() -> None:
    for seed in range(3):
        first, second = run(seed), run(seed)
        assert (first.digest, first.steps) == (second.digest, second.steps)


@pytest.mark.long
def test_a_seed_means_the_same_in_every_process() -> None:
    """Neither the order of sets nor addresses in memory come into it."""
    script = "from tests.simulation.world import World; print([World(seed).run().digest for seed in range(3)])"
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1


def test_no_part_that_is_simulated_can_reach_real_time_or_chance() -> None:
    """Of all modules, whatever else this process has imported so far."""
    for module in pkgutil.walk_packages(ficha.__path__, "ficha."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert escapes() == []
