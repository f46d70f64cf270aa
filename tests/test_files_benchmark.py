"""The measure of files runs and writes what it should; how fast anything is, no test says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.files import Round, _figures

ROOT = Path(__file__).parent.parent


@pytest.mark.long
def test_a_quick_run_writes_results_that_do_not_name_the_machine(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.files", "--quick", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "files.json").read_text(encoding="utf-8"))["figures"]
    assert [figure["share"] > 0 for figure in figures] == [True, True]
    text = (tmp_path / "FILES.md").read_text(encoding="utf-8")
    assert "| upload, beside a write that is flushed |" in text
    for private in (str(ROOT), "/tmp", "host="):  # noqa: S108 (looked for, not written to)
        assert private not in text


def test_a_share_is_the_median_of_those_within_each_round() -> None:
    rounds = [
        Round(disk_write=write, upload=up, disk_read=100, download=50, upload_cpu_s=2, download_cpu_s=1)
        for write, up in ((100, 10), (1_000, 300), (10, 9))
    ]
    upload, download = _figures(rounds)
    assert (upload["disk_mib_s"], upload["served_mib_s"], upload["share"]) == (100, 10, 0.3)
    assert upload["is_reached"]
    assert (download["share"], download["server_cpu_s_per_gib"]) == (0.5, 1)
