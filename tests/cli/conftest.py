"""What the tests of the command share: ways to run it, databases, and an application to run it for."""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ficha import Ficha
from ficha.cli import main
from ficha.cli.load_app import load
from tests.cli.running import Done, Run
from tests.support import processes
from tests.support.postgres import new_database
from tests.support.postgres_databases import emptied

FICHA = Path(sys.executable).with_name("ficha")
APPLICATION = Path(__file__).with_name("application.py")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in a folder of its own, and what it imports from there is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("FICHA_DATABASE_URL", "FICHA_APP", "FICHA_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture(autouse=True)
def forgotten(folder: Path) -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def ficha(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command within this process: the same code, without the time that a start takes."""

    def run(*arguments: str, database: str | None = None, expect: int | None = 0) -> Done:
        if database is not None:
            monkeypatch.setenv("FICHA_DATABASE_URL", database)
        monkeypatch.setattr(sys, "argv", ["ficha", *arguments])
        capsys.readouterr()
        # On a thread of its own: the test may have an event loop, and so has the command.
        with ThreadPoolExecutor(1) as thread, pytest.raises(SystemExit) as end:
            thread.submit(main).result()
        done = Done(end.value.code or 0, *capsys.readouterr())
        assert expect is None or done.code == expect, done.err
        return done

    return run


@pytest.fixture
def process(folder: Path) -> Run:
    """Runs the command as a process of its own."""

    def run(*arguments: str, database: str | None = None, expect: int = 0, given: str = "") -> Done:
        variables = os.environ | {"COLUMNS": "40"} | ({"FICHA_DATABASE_URL": database} if database else {})
        done = processes.run(None, *arguments, cwd=folder, env=variables, given=given)
        assert done.returncode == expect, done.stderr
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(params=["sqlite", "postgresql"])
async def empty(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[str]:
    """The address of a database with nothing in it."""
    if request.param == "sqlite":
        yield f"sqlite:///{folder / 'ficha.db'}"
    else:
        async with new_database(request.getfixturevalue("postgres_server")) as url:
            yield url


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A database that is ready, or makes itself so; the environment names it."""
    async with AsyncExitStack() as stack:
        if request.param == "sqlite":
            address = f"sqlite:///{folder / 'ficha.db'}"
        else:
            address = await stack.enter_async_context(emptied(request.getfixturevalue("shared_database")))
        monkeypatch.setenv("FICHA_DATABASE_URL", address)
        yield address


@pytest.fixture
def shop(folder: Path) -> Callable[[], Ficha]:
    """Puts the application into the folder; called, it gives it as a process of its own would have it."""
    shutil.copy(APPLICATION, folder / "app.py")

    def loaded() -> Ficha:
        sys.modules.pop("app", None)
        return load("app:app")

    return loaded
