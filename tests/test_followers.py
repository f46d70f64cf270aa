"""The measure of followers runs and says what it should; what it finds, no test says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_quick_run_tells_the_cost_in_every_situation_and_hears_what_is_written() -> None:
    command = [sys.executable, "-m", "benchmarks.followers", "--followers", "60", "--per-s", "200", "--seconds", "0.5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "nobody follows",
        "60 streams, nothing happens",
        "60 streams, 200 events/s of others' jobs",
        "60 streams, 200 events/s of followed jobs",
    ]
    assert all(re.search(r"% of a core, [\d.]+% in the database", line) for line in lines)
    assert "heard after" in lines[-1]
