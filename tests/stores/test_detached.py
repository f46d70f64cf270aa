"""The optimistic layer can be taken away: without its folder and the one line that adds it, the plain store does all.

A copy of the package and of the tests loses the layer, and its tests run in a process of their own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYER = Path("src/ficha/store/postgres/optimistic")
OWN = Path("tests/stores/optimistic")
"""The tests of the layer alone."""
EVERY_DAY = (
    "tests/stores/test_postgres.py",
    "tests/stores/test_equivalence.py",
    "tests/stores/test_conformance.py::TestPostgres",
)
LEFT_OUT = (".git", ".venv", ".*_cache", ".hypothesis", "node_modules", "*.db*")
WHAT_NEEDS_LOCKS = "test_postgres or test_equivalence or at_once or race_for"
"""Of the conformance suite, what the layer's check of versions would see to. `make test-all` runs all of it."""


@pytest.fixture
def copy(open_folder: Path) -> Path:
    """The project without the layer, where tests that give up root's rights can read it too."""
    # With what is compiled already, which is by far the most of it.
    shutil.copytree(ROOT, open_folder, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True)
    (open_folder / "web/node_modules").symlink_to(ROOT / "web/node_modules")
    shutil.rmtree(open_folder / LAYER)
    shutil.rmtree(open_folder / OWN)
    store = open_folder / LAYER.parent / "store.py"
    lines = store.read_text().splitlines(keepends=True)
    kept = [line for line in lines if "optimistic_layer" not in line]
    assert len(lines) - len(kept) == 2, "an import and one line are all that the plain store knows of the layer"
    store.write_text("".join(kept))
    return open_folder


def run(folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--maxfail=9", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]


def test_no_word_of_the_layer_stands_outside_it() -> None:
    for path in (ROOT / LAYER.parent).glob("*.py"):
        for word in ("xmin", "ctid"):
            assert word not in path.read_text(), f"{path} knows {word}"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_without_the_layer_the_plain_store_does_all_that_a_store_must(copy: Path) -> None:
    run(copy, *EVERY_DAY, "-k", WHAT_NEEDS_LOCKS)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_without_the_layer_every_other_test_passes(copy: Path) -> None:
    """Those of `make test`. (The documents speak of the layer.)"""
    others = ("--ignore=tests/stores/test_detached.py", "--ignore=tests/docs")
    run(copy, "-n", "4", "-m", "not long", "tests", *others)
