"""The guide to tests of one's own application: its files are a project whose tests pass."""

import os
import re
import subprocess
import sys
from pathlib import Path

GUIDE = (Path(__file__).parents[2] / "docs/testing.md").read_text()


def test_the_project_of_the_guide_passes_its_tests(tmp_path: Path) -> None:
    files = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", GUIDE, re.DOTALL)
    assert [name for name, _ in files] == ["shop.py", "test_handler.py", "conftest.py", "test_shop.py"]
    for name, text in files:
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:schemathesis", "-p", "no:hypothesispytest"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout
    assert not (tmp_path / "shop.db").exists()
