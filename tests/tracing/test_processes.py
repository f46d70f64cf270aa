"""One trace over a server process, a worker process and a provider, as a receiver process is sent it; and the log lines
of the same jobs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import ficha
from ficha.job_log import FIELDS
from tests.provider_tools.loopback import LoopbackServer
from tests.support.postgres_databases import migrated_database
from tests.support.processes import ForkedProcess
from tests.support.server_process import NO_TLS, SECRET
from tests.support.waiting import until
from tests.tracing import application

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PUBLIC_URL = "https://ficha.test"


PATHS = [
    "submit draw",
    "submit draw > run draw",
    "submit draw > run draw > call-back loopback",
    "submit draw > run draw > finish draw",
    "submit draw > run draw > finish draw",
    "submit draw > run draw > hook noted",
    "submit draw > run draw > provider start",
    "submit draw > wait in line",
    "submit paint",
    "submit paint > run paint",
    "submit paint > run paint",
    "submit paint > run paint > finish paint",
    "submit paint > run paint > finish paint",
    "submit paint > run paint > hook noted",
    "submit paint > run paint > step sketch",
    "submit paint > wait in line",
    "submit paint > wait in line",
]
"""The spans of both jobs, each with those that it is under."""


class Site:
    """A server and a worker of the same database, whose logs are read, and what the receiver was sent."""

    def __init__(self, database: str, folder: Path, stack: ExitStack) -> None:
        self.database = database
        self.folder = folder
        self.url = ""
        self._stack = stack
        self.processes: list[ForkedProcess] = []

    def start(self, what: str, module: str, *arguments: str, **environment: str) -> ForkedProcess:
        with open(self.folder / f"{what}.log", "ab") as log:
            given = {**os.environ, "FICHA_SECRET": SECRET, "FICHA_PUBLIC_URL": PUBLIC_URL, **environment}
            given["FICHA_FILES_URL"] = f"file:{self.folder / 'files'}"
            process = ForkedProcess(module, arguments, env=given, stdout=log, stderr=log)
        self._stack.callback(_stop, process)
        self.processes.append(process)
        return process

    def text(self, what: str) -> str:
        path = self.folder / f"{what}.log"
        return path.read_text() if path.exists() else ""

    def lines(self) -> list[dict[str, Any]]:
        """What server and worker have logged."""
        both = (self.text("server") + self.text("worker")).splitlines()
        return [json.loads(line) for line in both if line.startswith("{") and line.endswith("}")]

    def spans(self) -> list[dict[str, Any]]:
        """What the receiver has written down; the last line may not be whole yet."""
        _, *lines = (self.folder / "spans").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]


def _stop(process: ForkedProcess) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.fixture(params=["sqlite", "postgresql"])
async def site(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Site, LoopbackServer]]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            database = f"sqlite:///{tmp_path / 'ficha.db'}"
        else:
            database = stack.enter_context(migrated_database(request.getfixturevalue("postgres_server")))
        site = Site(database, tmp_path, stack)
        async with LoopbackServer() as provider:
            monkeypatch.setenv("TRACING_TEST_PROVIDER", provider.url())
            yield site, provider


async def _started(site: Site, endpoint: str) -> None:
    """Starts a server and a worker that export to this address."""
    environment = {"FICHA_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    named = ["--app", "tests.tracing.application:app", "--database", site.database, "--log", "json"]
    site.start("server", "ficha.cli", "serve", *named, "--port", "0", **environment)
    site.start("worker", "ficha.cli", "worker", *named, "--name", "w-1", **environment)
    found = re.compile(r"http://127\.0\.0\.1:\d+")
    await until(lambda: found.search(site.text("server")))
    site.url = found.search(site.text("server"))[0]  # type: ignore[index]


async def _key(site: Site) -> str:
    app = application.build()
    app.use_database(site.database)
    async with app:
        await app.open_account("ana", credits=1_000, exist_ok=True)
        return (await app.create_api_key("tests", scope="user", account="ana")).secret


@pytest.mark.req("B9")
async def test_a_job_is_one_tree_of_spans_over_all_processes(site: tuple[Site, LoopbackServer]) -> None:
    found, provider = site
    found.start("receiver", "tests.tracing.receiver", str(found.folder / "spans"))
    await until(lambda: (found.folder / "spans").exists() and (found.folder / "spans").read_text())
    key = await _key(found)
    await _started(found, (found.folder / "spans").read_text().split()[0])
    async with httpx.AsyncClient(base_url=found.url, verify=NO_TLS, trust_env=False, timeout=30) as browser:
        headers = {"Authorization": f"Bearer {key}", "traceparent": PARENT, "tracestate": "shop=7"}
        painted = await _submitted(browser, headers, "paint")
        drawn = await _submitted(browser, headers, "draw")
        await until(lambda: provider.starts)
        start = provider.starts[0]
        provider.succeed(start["ref"])
        signed, body = provider.callback(start["ref"])
        taken = await browser.post(start["callback"].removeprefix(PUBLIC_URL), headers=signed, content=body)
        assert taken.status_code == 200
        await _ended(browser, headers, painted, drawn)

    def whole() -> dict[str, dict[str, Any]] | None:
        spans = {span["id"]: span for span in found.spans()}
        count = sum(span["name"] != "provider poll" for span in spans.values())
        return spans if count >= len(PATHS) else None

    spans = await until(whole, what=str(sorted(span["name"] for span in found.spans())))
    assert {span["trace"] for span in spans.values()} == {PARENT[3:35]}
    assert {span["state"] for span in spans.values() if span["name"] != "hook noted"} == {"shop=7"}
    services = {(span["name"].split()[0], span["resource"]["service.name"]) for span in spans.values()}
    assert services >= {("submit", "ficha-server"), ("call-back", "ficha-server"), ("run", "ficha-worker")}
    assert {service for _, service in services} == {"ficha-server", "ficha-worker"}
    assert {span["resource"]["service.version"] for span in spans.values()} == {ficha.__version__}
    assert {span["resource"]["host.name"] for span in spans.values()} == {socket.gethostname()}

    def path(span: dict[str, Any]) -> str:
        above = spans.get(span["parent"])
        assert above is not None or span["parent"] == PARENT[36:52], span
        return span["name"] if above is None else f"{path(above)} > {span['name']}"

    paths = sorted(path(span) for span in spans.values() if span["name"] != "provider poll")
    assert paths == PATHS
    polls = {path(span) for span in spans.values() if span["name"] == "provider poll"}
    assert polls <= {"submit draw > run draw > provider poll"}
    # What goes out to the provider names the span of the request, and nothing but that was sent twice.
    [starting] = [span for span in spans.values() if span["name"] == "provider start"]
    assert start["headers"]["traceparent"] == f"00-{PARENT[3:35]}-{starting['id']}-01"
    assert start["headers"]["tracestate"] == "shop=7"
    for span in spans.values():
        assert span["start_ns"] <= span["end_ns"], span
    for submit in (span for span in spans.values() if span["name"].startswith("submit ")):
        for below in (span for span in spans.values() if span["parent"] == submit["id"]):
            assert below["start_ns"] >= submit["start_ns"], (submit, below)
    first, second = sorted(
        (span for span in spans.values() if span["name"] == "run paint"), key=lambda span: span["start_ns"]
    )
    assert (first["links"], second["links"]) == ([], [first["id"]])
    assert first["end_ns"] <= second["start_ns"]

    # The same walk, as the logs of both processes tell it: each line of a job has all fields and the job's own id.
    lines = [line for line in found.lines() if line.get("job") in (painted, drawn)]
    told = {line["event"] for line in lines}
    assert told >= {
        *("claimed", "retried", "completed", "painted", "their own line", "a step's own line", "the hook's own line"),
        *("a provider called back", "collected"),
    }
    for line in lines:
        assert line.keys() >= {*FIELDS, "trace_id", "span_id"}, line
        assert line["correlation_id"] == "c-7", line
        assert line["trace_id"] == PARENT[3:35], line
        assert line["span_id"] in spans, line
    mentions = [line for line in found.lines() if painted in str(line) or drawn in str(line)]
    assert [line for line in mentions if line.get("correlation_id") is None] == []


@pytest.mark.long
async def test_a_receiver_that_hangs_holds_up_nothing(site: tuple[Site, LoopbackServer]) -> None:
    found, _ = site

    async def hang(what: str, ref: str) -> None:
        await asyncio.Event().wait()

    hanging = LoopbackServer()
    hanging.answering = hang
    key = await _key(found)
    async with hanging:
        await _started(found, hanging.url().rstrip("/"))
        async with httpx.AsyncClient(base_url=found.url, verify=NO_TLS, trust_env=False, timeout=30) as browser:
            headers = {"Authorization": f"Bearer {key}"}
            jobs = [await _submitted(browser, headers, "paint") for _ in range(3)]
            await _ended(browser, headers, *jobs)
        # Each process ends too, although its last spans cannot be handed over.
        for process in found.processes:
            process.send_signal(signal.SIGTERM)
        for process in found.processes:
            assert await until(lambda process=process: process.poll() is not None)
            assert process.poll() == 0
        assert hanging.connections > 0


async def _submitted(browser: httpx.AsyncClient, headers: dict[str, str], tool: str) -> str:
    asked = {"tool": tool, "payload": {"text": "a"}, "correlation_id": "c-7"}
    answer = await browser.post("/api/jobs", json=asked, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


async def _ended(browser: httpx.AsyncClient, headers: dict[str, str], *jobs: str) -> None:
    async def is_over(job: str) -> bool:
        status = (await browser.get(f"/api/jobs/{job}", headers=headers)).json()["status"]
        assert status not in ("failed", "cancelled")
        return bool(status == "completed")

    for job in jobs:
        await until(lambda job=job: is_over(job))
