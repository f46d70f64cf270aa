"""The package: what `import ficha` takes, what each extra is for, and what a wheel brings to a bare environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ficha.server.routes.web_pages import CONSOLE

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HEAVY = (
    "apsw", "asyncpg", "fastapi", "httptools", "httpx", "importlib.metadata", "jwt", "multiprocessing", "obstore",
    "PIL", "prometheus_client", "pydantic", "resource", "rich", "starlette", "structlog", "typer", "uvicorn", "uvloop",
)  # fmt: skip
"""What takes long, needs an extra, or is not there on Windows."""
NOT_ON_WINDOWS = ("fcntl", "grp", "pwd", "resource", "termios", "uvloop")
BLOCK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def python(
    code: str, *, without: tuple[str, ...] = (), program: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Runs code in a new process in which these modules cannot be imported."""
    text = BLOCK.format(blocked=without) + code
    return subprocess.run([program, "-c", text], capture_output=True, text=True, cwd="/", timeout=60, check=False)


def done(code: str, *, without: tuple[str, ...] = (), program: str = sys.executable) -> str:
    ended = python(code, without=without, program=program)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_import_ficha_takes_no_driver_no_server_and_no_pydantic() -> None:
    """`python -X importtime -c 'import ficha'` shows where the time goes; it is to stay below 0.15 s."""
    found = done(f"import ficha\nprint([name for name in {HEAVY!r} if name in sys.modules])")
    assert found.strip() == "[]"


def test_a_client_needs_no_database_and_nothing_that_windows_lacks() -> None:
    absent = (*NOT_ON_WINDOWS, "apsw", "asyncpg", "fastapi", "typer", "uvicorn")
    code = "from ficha.client import AsyncClient, Client\nwith Client('http://127.0.0.1:1', token='x'): print('made')"
    assert done(code, without=absent).strip() == "made"


@pytest.mark.long
@pytest.mark.parametrize(
    ("absent", "extra", "code"),
    [
        ("asyncpg", "postgres", "import asyncio, ficha\nasyncio.run(ficha.Ficha('postgresql://x/y').open())"),
        ("fastapi", "server", "import ficha\nficha.Ficha('memory:').asgi()"),
        ("jwt", "server", "from ficha.server import Settings"),
        ("httpx", "client", "import ficha.client"),
        ("typer", "cli", "from ficha.cli import main\nmain()"),
        ("obstore", "files", "from ficha.files.storage import open_storage\nopen_storage('s3://bucket')"),
        ("python_multipart", "files", "import ficha.files.multipart"),
        ("PIL", "files", "import ficha.files.inspection"),
        ("asyncpg", "postgres", "sys.argv[1:] = ['migrate', 'up', '--database', 'postgresql://x/y']\n"
                                "from ficha.cli import main\nmain()"),
        ("uvicorn", "server", "sys.argv[1:] = ['serve', '--app', 'nothing:app']\nfrom ficha.cli import main\nmain()"),
        ("standardwebhooks", "providers", "from ficha import Ficha\nFicha('memory:', webhooks=True).worker()"),
    ],
)  # fmt: skip
def test_what_is_not_installed_names_its_extra(absent: str, extra: str, code: str) -> None:
    ended = python(code, without=(absent,))
    assert ended.returncode == 1
    assert f"{absent} is not installed; it comes with an extra: pip install 'ficha[{extra}]'" in ended.stderr
    assert ("Traceback" in ended.stderr) is ("main()" not in code)


def test_each_extra_installs_what_its_error_names() -> None:
    named = {extra: {Requirement(one).name for one in many} for extra, many in PROJECT["optional-dependencies"].items()}
    assert "asyncpg" in named["postgres"]
    assert {"fastapi", "pyjwt", "uvicorn"} <= named["server"]
    assert "httpx" in named["client"]
    assert "typer" in named["cli"]
    [every] = map(Requirement, PROJECT["optional-dependencies"]["all"])
    assert every.extras == named.keys() - {"all"}


def test_a_wheel_brings_the_pages_that_were_built_although_git_ignores_them(tmp_path: Path) -> None:
    for name in ("pyproject.toml", ".gitignore", "README.md", "LICENSE", "src/ficha/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    built = CONSOLE.relative_to(ROOT)
    for name in ("index.html", "assets/index-Dq3x.js", "../.ready", "../../__pycache__/guard.cpython-311.pyc"):
        (tmp_path / built / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / built / name).write_text(name)

    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=tmp_path, check=True, timeout=60)

    [wheel] = (tmp_path / "dist").glob("ficha-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        files = {name for name in packed.namelist() if name.startswith("ficha/server/")}
    assert files == {"ficha/server/pages/console/index.html", "ficha/server/pages/console/assets/index-Dq3x.js"}


@pytest.mark.long
def test_a_wheel_works_in_a_bare_environment(tmp_path: Path) -> None:
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True)
    [wheel] = (tmp_path / "dist").glob("ficha-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    [site] = (tmp_path / "bare").glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    _link(site, [Requirement(one).name for one in PROJECT["dependencies"]])
    bare = str(tmp_path / "bare" / "bin" / "python")

    assert str(site) in done("import ficha\nprint(ficha.__file__)", program=bare)
    ran = done(
        f"""
import asyncio
from ficha import Ficha
app = Ficha("sqlite:///{tmp_path}/ficha.db")

@app.tool(cost=5)
async def double(job, n: int) -> int:
    return 2 * n

async def main():
    async with app:
        await app.open_account("ana", credits=9)
        receipt = await app.submit("double", {{"n": 21}}, account="ana")
        await app.run_worker(burst=True)
        print((await app.job(receipt.job_id)).result)

asyncio.run(main())
""",
        program=bare,
    )
    assert ran.strip() == "42"
    ended = python("from ficha.cli import main\nmain()", program=bare)
    assert "pip install 'ficha[cli]'" in ended.stderr


def _link(site: Path, names: list[str]) -> None:
    """Lends an environment these packages, and what they need, from this one."""
    seen: set[str] = set()
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(found.locate_file(top))))
        names += [
            Requirement(one).name
            for one in found.requires or ()
            if (marker := Requirement(one).marker) is None or marker.evaluate({"extra": ""})
        ]
