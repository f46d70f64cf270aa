"""What every walk through the pages needs: the built pages, a browser, and the studio on both databases."""

import functools
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.browser import FLAGS, Visitor
from tests.support.postgres import Server
from tests.support.postgres_databases import migrated_database
from tests.support.server_process import Served
from tests.support.studio import Scene, run

PAGES = (Path("src/ficha/server/pages/console/index.html"), Path("examples/studio/pages/index.html"))
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Machines that run tests are busy: only a test that fails waits for so long.
expect.set_options(timeout=20_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` has the walks on SQLite, `make test-all` on both databases."""
    for item in items:
        is_walk = isinstance(item, pytest.Function) and Path(item.path).parent == Path(__file__).parent
        if is_walk and "postgresql" in item.name:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def built_pages() -> None:
    missing = [str(path) for path in PAGES if not path.exists()]
    assert not missing, f"not built: {', '.join(missing)}; run `make web` first, as `make test` does"


@pytest.fixture(scope="module")
def chromium(built_pages: None) -> Iterator[Browser]:
    """Not for the whole run: as long as it is there, an event loop runs in this thread, and no async test can."""
    # The shell is Chromium without its windows, and takes two thirds of the time.
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert path is not None, "no Chromium is installed (on Debian: apt-get install chromium-headless-shell)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def studio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The studio, with the settings that the module names in `STUDIO`."""
    folder = tmp_path_factory.mktemp("studio")
    settings = {"STUDIO_LEAVE_GRACE_S": "5", **getattr(request.module, "STUDIO", {})}
    if request.param == "sqlite":
        with run.studio(f"sqlite:///{folder}/studio.db", folder, seconds=0.05, **settings) as running:
            yield running
        return
    server: Server = request.getfixturevalue("postgres_server")
    with migrated_database(server) as url, run.studio(url, folder, seconds=0.05, **settings) as running:
        yield running


@pytest.fixture
def scene(studio: Any) -> Iterator[Scene]:
    found = Scene(studio)
    yield found
    found.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without a worker, on a database of its own: a test works on the jobs by hand."""
    if request.param == "sqlite":
        with run_shop(f"sqlite:///{tmp_path_factory.mktemp('shop') / 'ficha.db'}") as running:
            yield running
        return
    server: Server = request.getfixturevalue("postgres_server")
    with migrated_database(server) as url, run_shop(url) as running:
        yield running


@contextmanager
def run_shop(database: str) -> Iterator[Served]:
    # Its keys are made in an event loop, and the browser has one in this thread.
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(Served, database).result()
    running.start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def windows(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Callable[..., Visitor]]:
    """Opens a browser window of its own for somebody. At the end each window must have seen no error of its page and no
    request to another origin."""
    visitors: list[Visitor] = []

    def open_window(url: str, **options: Any) -> Visitor:
        visitor = Visitor(chromium, url, request.node.name, **options)
        visitors.append(visitor)
        return visitor

    yield open_window
    problems = [problem for visitor in visitors for problem in visitor.close()]
    assert not problems


@pytest.fixture
def visit(windows: Callable[..., Visitor], studio: Any) -> Callable[..., Visitor]:
    """A window at the studio."""
    return functools.partial(windows, studio.url)


@pytest.fixture
def visit_shop(windows: Callable[..., Visitor], shop: Served) -> Callable[..., Visitor]:
    """A window at the shop."""
    return functools.partial(windows, shop.url)
