"""The measure of hostile accounts runs and writes what it should; how much anybody feels, no test says."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.endurance.findings import Findings
from benchmarks.hostile.attacks import ATTACKS
from benchmarks.hostile.measure import LEAST_RATE, MOST_P99_MS, _judge

ROOT = Path(__file__).parent.parent


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("database", ["postgres", "sqlite"])
def test_a_quick_run_writes_results_that_do_not_name_the_machine(database: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.hostile", "--quick", "--database", database, "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    (figures,) = json.loads((tmp_path / "hostile.json").read_text(encoding="utf-8"))["figures"].values()
    assert list(figures) == ["alone", *ATTACKS]
    assert figures["alone"]["failed"] == 0
    assert all(figures[name]["answers"] for name in ATTACKS)
    text = (tmp_path / "HOSTILE.md").read_text(encoding="utf-8")
    for private in (str(ROOT), "/tmp", "host="):  # noqa: S108 (looked for, not written to)
        assert private not in text


def test_every_attack_is_a_request_of_the_largest_size_that_is_taken() -> None:
    for name, attack in ATTACKS.items():
        first, second = islice(attack.requests("key", 0), 2)
        assert first.startswith((b"GET /api/", b"POST /api/")), name
        assert b"\r\nAuthorization: Bearer key\r\n" in second
        limit = 16 * 2**20 if b" /api/batches " in first else 2**20
        assert len(first) < limit, name


@pytest.mark.parametrize(
    ("per_second", "p99_ms", "is_reached"),
    [
        (100 * LEAST_RATE, MOST_P99_MS - 0.1, True),
        (100 * LEAST_RATE - 1, 1.0, False),
        (100.0, MOST_P99_MS, False),
    ],
)
def test_the_targets_are_a_share_of_the_rate_alone_and_a_longest_wait(
    per_second: float, p99_ms: float, is_reached: bool
) -> None:
    findings = Findings()
    _judge(findings, "x", {"per_second": 100.0}, {"per_second": per_second, "p99_ms": p99_ms})
    assert [verdict.is_reached for verdict in findings.verdicts] == [is_reached]
