"""A disk that keeps only what was flushed when the power fails, and one whose Nth operation fails."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run(program: str, folder: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", f"tests.chaos.{program}", str(folder), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.req("D1", "D2")
def test_what_was_acknowledged_survives_every_power_cut(tmp_path: Path) -> None:
    found = run("power", tmp_path, "0", "12", "1")
    assert found["wrong"] == []
    assert found["cuts"] == 12
    assert found["lost"] > 0, "no cut fell where anything could be lost"


def test_a_database_that_does_not_wait_for_its_flushes_is_found_out(tmp_path: Path) -> None:
    """The test above would notice."""
    found = run("power", tmp_path, "10", "1", "1", "careless")
    assert found["wrong"] != [], found


@pytest.mark.req("D1", "D2")
def test_whichever_disk_operation_fails_nothing_is_lost_or_done_twice(tmp_path: Path) -> None:
    found = run("nth", tmp_path, "30")
    assert found["wrong"] == []
    assert found["jobs"] == 60
    assert found["struck"] >= 50
