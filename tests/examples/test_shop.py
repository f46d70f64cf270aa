"""The product with its own tables, payments and tokens: its own tests pass on a real PostgreSQL."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path("examples/shop").resolve()


@pytest.mark.long
def test_the_shop_passes_its_own_tests(migrated: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:schemathesis", "-p", "no:cacheprovider"],
        cwd=EXAMPLE,
        env={**os.environ, "FICHA_DATABASE_URL": migrated},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = "".join((EXAMPLE / name).read_text() for name in ("test_handlers.py", "test_shop.py"))
    [passed] = re.findall(r"^(\d+) passed in", done.stdout, re.MULTILINE)
    assert int(passed) >= len(re.findall(r"^(?:async )?def test_", told, re.MULTILINE))


def test_the_shop_shows_four_tools_with_their_prices() -> None:
    text = (EXAMPLE / "README.md").read_text()
    declared = re.findall(r"@app\.tool\(.*\)\n(?:async )?def (\w+)", (EXAMPLE / "jobs.py").read_text())
    assert len(declared) == 4
    assert all(f"| `{name}(" in text for name in declared)
