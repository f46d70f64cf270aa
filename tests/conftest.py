"""Fixtures that every test may use."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import engine

from tests.support.postgres import Server, new_database, server_folder
from tests.support.postgres_databases import emptied, migrated_database

# Some machines tell Python to keep no compiled code. The suite starts hundreds of interpreters, and each of them would
# compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The store suite is library code, whose assertions would otherwise fail without a word.
pytest.register_assert_rewrite("ficha.testing")

# How many examples each property is tried on: for every day the same ones each time, so that only a change can make a
# test fail; `make test-all` names the thorough profile, which makes up others each time.
settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=300, deadline=None)
settings.load_profile("quick")
# A failing example is made simpler for so many seconds, and then told. Hypothesis itself goes on for five minutes, and
# a test's time is over before that.
assert engine.MAX_SHRINKING_SECONDS == 300
engine.MAX_SHRINKING_SECONDS = 30

TOGETHER = ("tests/web/", "tests/examples/test_studio.py")
"""Tests whose studio and browser, which take seconds to start, serve all of a file."""

# The process that started the tests owns the server; with pytest-xdist its workers only get to know the folder.
SERVER = pytest.StashKey[Server]()
OWNED = pytest.StashKey[ExitStack]()


def pytest_configure(config: pytest.Config) -> None:
    # A shell without job control starts what it puts in the background with SIGINT ignored. Every process that a test
    # starts would inherit that, and never hear that it is interrupted.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[OWNED] = ExitStack()
    workerinput = getattr(config, "workerinput", None)
    if workerinput is None:
        config.stash[SERVER] = config.stash[OWNED].enter_context(server_folder())
    else:
        config.stash[SERVER] = Server(Path(workerinput["postgres"]))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long and would tell little more on another database is left to `make test-all` there."""
    for item in items:
        marker = item.get_closest_marker("long_on")
        if marker is not None and any(word in item.name.partition("[")[2] for word in marker.args):
            item.add_marker(pytest.mark.long)
    # Each worker of pytest-xdist has a part of the tests, and takes over what another has last. So what comes first
    # stays together.
    items.sort(key=lambda item: not item.nodeid.startswith(TOGETHER))


def pytest_collection() -> None:
    """What is collected stays to the end, so the garbage collector need not look at it, now or later."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:  # pytest-xdist calls this before it starts a worker
    node.workerinput["postgres"] = str(node.config.stash[SERVER].folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[OWNED].close()


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> Server:
    """A running PostgreSQL, one for the whole run, started when the first test asks for it."""
    server = pytestconfig.stash[SERVER]
    server.start()
    return server


@pytest.fixture(scope="session")
def shared_database(postgres_server: Server) -> Iterator[str]:
    """The address of a PostgreSQL database with Ficha's schema, which all tests of a process share one after the other:
    each empties it first."""
    with migrated_database(postgres_server) as url:
        yield url


@pytest.fixture
async def migrated_url(shared_database: str) -> AsyncIterator[str]:
    """The address of a PostgreSQL database with Ficha's schema and no row, for one test that changes rows only."""
    async with emptied(shared_database) as url:
        yield url


@pytest.fixture
async def postgres_url(postgres_server: Server) -> AsyncIterator[str]:
    """The address of a fresh empty PostgreSQL database, for one test that may do with it whatever it likes."""
    async with new_database(postgres_server) as url:
        yield url


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may look into: pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="ficha-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
