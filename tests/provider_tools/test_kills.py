"""A worker process that is killed between any two steps of the start and of the copy: the next one goes on, the
provider is called once per key, and the money is right."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.provider_tools import application
from tests.provider_tools.loopback import LoopbackServer, ended, money, submitted
from tests.support.postgres_databases import emptied
from tests.support.processes import ForkedProcess
from tests.support.waiting import until

CASES = [
    *(("sqlite", point) for point in application.POINTS),
    *(
        pytest.param("postgresql", point, marks=[] if point in ("requested", "copied") else [pytest.mark.long])
        for point in application.POINTS
    ),
]


@pytest.fixture
async def shared_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'ficha.db'}"
    else:
        async with emptied(request.getfixturevalue("shared_database")) as address:
            yield address


@contextmanager
def worker(url: str, log: Path) -> Iterator[ForkedProcess]:
    options = ["worker", "--app", "tests.provider_tools.application:app", "--database", url]
    with open(log, "ab") as file:
        process = ForkedProcess("ficha.cli", options, env=os.environ, stdout=file, stderr=file)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=20)


@pytest.mark.long_on("postgresql")
@pytest.mark.req("B3", "E3")
@pytest.mark.parametrize(("kind", "point"), CASES)
async def test_a_worker_that_dies_between_two_steps_leaves_a_job_that_another_one_finishes_once(
    shared_url: str, server: LoopbackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    async def done(what: str, ref: str) -> None:
        if what == "start":
            server.succeed(ref, "done", [{"url": server.url("/file/x.png")}])

    server.answering = done
    for name, value in (
        (application.PROVIDER, server.url()),
        (application.MARK, str(tmp_path / "died")),
        ("FICHA_DATABASE_URL", shared_url),
    ):
        monkeypatch.setenv(name, value)
    async with application.build(shared_url) as app:
        job_id = await submitted(app)
        monkeypatch.setenv(application.DIE_AT, point)
        with worker(shared_url, log := tmp_path / "log") as doomed:
            await until(lambda: doomed.poll() is not None, what="the worker dies")
        assert (tmp_path / "died").exists(), log.read_text()[-2_000:]
        monkeypatch.delenv(application.DIE_AT)
        with worker(shared_url, log):
            job = await ended(app, job_id)
        assert (job.status, [file["name"] for file in job.result["files"]]) == ("completed", ["x.png"])
        assert (server.keys, len(server.works)) == ([f"{job_id}:0"], 1)
        assert await money(app) == [("grant", 100), ("charge", -5)]
        assert len((await app.files("ana")).items) == 1
        assert await app.verify() == []
