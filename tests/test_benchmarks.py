"""The benchmarks run and write what they should; how fast anything is, no test says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SUBMITS = ["submit_1", "submit_64", "submit_512"]
MEASUREMENTS = [*SUBMITS, "life_1", "life_64", "life_512", "bulk", "claim_finish", "work"]
SIDES = {("PostgreSQL", "Ficha"), ("PostgreSQL", "PgQueuer"), ("SQLite", "Ficha")}


def test_a_quick_run_measures_every_peer_and_writes_results_that_do_not_name_the_machine(tmp_path: Path) -> None:
    # One test for all of it, because a run takes a while and the workers of a parallel run share no fixtures.
    command = [sys.executable, "-m", "benchmarks", "--quick", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    assert "submit, 64 callers" in done.stdout
    found = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    check_figures(found)
    check_ratios(found["ratios"])
    check_words(found["machine"], (tmp_path / "RESULTS.md").read_text(encoding="utf-8"))


def check_figures(found: dict[str, Any]) -> None:
    assert {(database, peer) for database, peers in found["databases"].items() for peer in peers} == SIDES
    for database, peer in SIDES:
        figures = found["databases"][database][peer]
        assert list(figures) == MEASUREMENTS
        for figure in figures.values():
            assert figure["per_second"] > 0
            assert figure["cpu_us"] > 0
            assert len(figure["rounds"]) == found["size"]["rounds"]
        for key in SUBMITS:
            assert 0 < figures[key]["p50_ms"] <= figures[key]["p99_ms"]


def check_ratios(ratios: dict[str, Any]) -> None:
    assert ratios["SQLite"] == {}
    beside = ratios["PostgreSQL"]["PgQueuer"]
    assert beside.keys() == {*MEASUREMENTS, *(f"life_{n}_to_submit_{n}" for n in (1, 64, 512))}
    assert all(ratio >= 0 for ratio in beside.values())


def check_words(machine: dict[str, str], text: str) -> None:
    assert {"date", "cores", "PostgreSQL", "SQLite"} <= machine.keys()
    assert "| submit, 512 callers |" in text
    assert "## PostgreSQL: jobs per second" in text
    assert "## SQLite: jobs per second" in text
    for private in (str(ROOT), "/tmp", "host="):  # noqa: S108 (looked for, not written to)
        assert private not in text + str(machine)
