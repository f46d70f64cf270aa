"""One version, read from one place, and the builds of it that are told apart."""

import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import ficha
from ficha.version import build

ROOT = Path(__file__).parent.parent


def test_the_package_says_which_release_it_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text().count(f'"{ficha.__version__}"') == 1
    assert ficha.__version__ == version("ficha")


def test_two_builds_of_one_release_are_told_apart(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "ficha" / "core", tmp_path / "ficha" / "core")
    for name in ("__init__.py", "version.py"):
        (tmp_path / "ficha" / name).write_text("" if name == "__init__.py" else (ROOT / "src/ficha" / name).read_text())

    def built() -> str:
        code = "from ficha.version import build; print(build())"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    first = built()
    assert first.startswith(f"{ficha.__version__}+")
    assert built() == first
    (tmp_path / "ficha" / "core" / "finish.py").write_text("pass\n")
    assert built() != first
    assert build().startswith(f"{ficha.__version__}+")
