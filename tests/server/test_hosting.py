"""Inside somebody else's server: what its log shows, how its stop ends streams, and who may serve without a secret."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from ficha import Ficha
from ficha.core.commands import Elect
from ficha.server import SettingError, hosting
from ficha.server.hosting import SECRET_DUTY, ProcessSecret, TokenFilter, take_token
from tests.app.conftest import url
from tests.support.processes import ROOT
from tests.support.server_process import SECRET
from tests.support.shop import shop

__all__ = ["url"]

CANARY = f"CANARY{uuid4().hex}"
_ADDRESS = re.compile(r"http://[\d.]+:\d+")


class Host:
    """A real uvicorn with the shop mounted into a host application."""

    def __init__(self, database: str, *arguments: str, **environment: str) -> None:
        command = [sys.executable, "-m", "uvicorn", "tests.server.hosted:host", "--port", "0", *arguments]
        variables = {**os.environ, "FICHA_DATABASE_URL": database, "CANARY": CANARY, **environment}
        self.process = subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, cwd=ROOT,
                                        env=variables)  # fmt: skip
        self.lines: list[str] = []
        self.url = ""
        self._listens = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._listens.wait(60) or not self.url:
            self.end()
            raise AssertionError("the host did not start:\n" + self.log)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.append(line)
                if not self.url and (found := _ADDRESS.search(line)):
                    self.url = found[0]
                    self._listens.set()
        self._listens.set()

    @property
    def log(self) -> str:
        return "".join(self.lines)

    def client(self, key: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=f"{self.url}/ficha", headers=headers, timeout=30, trust_env=False)

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            self._reader.join(10)


@contextmanager
def hosted(database: str, *arguments: str, **environment: str) -> Iterator[Host]:
    host = Host(database, *arguments, **environment)
    try:
        yield host
    finally:
        host.end()


def prepared(database: str) -> tuple[str, str]:
    """A user's key and a job of theirs that waits."""

    async def prepare() -> tuple[str, str]:
        async with shop(database) as app:
            await app.open_account("ana", plan="open", credits=100)
            receipt = await app.submit("upscale", {"image": "x"}, account="ana")
            return (await app.create_api_key("ana", account="ana")).secret, receipt.job_id

    return asyncio.run(prepare())


def test_in_a_host_no_log_line_has_a_token_streams_end_at_its_stop_and_errors_are_logged(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'ficha.db'}"
    key, job = prepared(database)
    arguments = ("--log-level", "trace", "--timeout-graceful-shutdown", "20")
    with hosted(database, *arguments, FICHA_SECRET=SECRET) as host, host.client(key) as user:
        token = user.post(f"/api/jobs/{job}/token").json()["token"]
        assert user.get("/api/queue/check").status_code == 500
        for query in (f"token={token}&after=0", f"%74oken={token}"):
            answer = httpx.get(
                f"{host.url}/ficha/api/jobs/{job}/events?{query}",
                headers={"Accept": "application/json"},
                trust_env=False,
            )
            assert answer.status_code == 200, answer.text
        with httpx.stream("GET", f"{host.url}/ficha/api/jobs/{job}/events?token={token}", trust_env=False) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "id: 1"
            host.process.send_signal(signal.SIGTERM)
            rest = list(lines)
        assert "event: reconnect" in rest
        assert host.end() in (0, -signal.SIGTERM)

    assert token not in host.log
    assert "token=[hidden]" in host.log
    assert "Exception" not in host.log
    assert "request failed" in host.log
    assert "RuntimeError" in host.log
    assert f"hosted.py:{_line_of('raise RuntimeError')} in pools" in host.log
    assert CANARY not in host.log


def _line_of(text: str) -> int:
    lines = (ROOT / "tests" / "server" / "hosted.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("query", "token", "left"),
    [
        (b"", None, b""),
        (b"after=1", None, b"after=1"),
        (b"mytoken=1", None, b"mytoken=1"),
        (b"token=a.b.c", "a.b.c", b"token=[hidden]"),
        (b"after=1&token=a%2Eb&limit=2", "a.b", b"after=1&token=[hidden]&limit=2"),
        (b"%74oken=a&token=b", "a", b"token=[hidden]&token=[hidden]"),
    ],
)
def test_a_token_is_taken_out_of_the_address(query: bytes, token: str | None, left: bytes) -> None:
    scope = {"query_string": query}
    assert take_token(scope) == token
    assert scope["query_string"] == left


def test_a_line_of_another_server_shows_no_token_and_keeps_its_other_parts() -> None:
    record = logging.LogRecord("uvicorn.access", logging.INFO, "", 0, '%s - "%s %s HTTP/%s" %d',
                               ("1.2.3.4:5", "GET", "/x?after=1&token=a.b.c", "1.1", 200), None)  # fmt: skip
    assert TokenFilter().filter(record)
    assert record.getMessage() == '1.2.3.4:5 - "GET /x?after=1&token=[hidden] HTTP/1.1" 200'
    assert isinstance(record.args, tuple)
    assert record.args[4] == 200


# Without a secret


@pytest.fixture
def without_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FICHA_SECRET", raising=False)
    monkeypatch.setattr(hosting, "SECRET_RENEWED_S", 0.05)


def test_a_missing_secret_is_warned_of(without_secret: None, caplog: pytest.LogCaptureFixture) -> None:
    shop().asgi()
    [line] = [line for line in caplog.records if line.name == "ficha.server"]
    assert line.levelname == "WARNING"
    assert "FICHA_SECRET is not set" in line.getMessage()
    assert "secrets.token_urlsafe" in line.getMessage()


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
async def test_a_second_process_without_a_secret_is_refused(url: str, without_secret: None) -> None:
    async with Ficha(url) as first, Ficha(url) as second:
        held, other = ProcessSecret("one"), ProcessSecret("two")
        await held.hold(first)
        with pytest.raises(
            SettingError, match=rf"process \({os.getpid()} on {socket.gethostname()}\).*same FICHA_SECRET"
        ):
            await other.hold(second)
        forked = ProcessSecret("one")
        await forked.hold(second)
        await forked.release(second)
        await held.release(first)
        await other.hold(second)
        await other.release(second)


async def test_a_process_that_died_holds_nobody_up(url: str, without_secret: None) -> None:
    gone = await asyncio.create_subprocess_exec("true")
    await gone.wait()
    async with Ficha(url) as app:
        for owner, ttl_ms in ((f"{socket.gethostname()} {gone.pid} x", 600_000), ("elsewhere 1 x", 50)):
            assert await app.engine.call(Elect(SECRET_DUTY, owner, ttl_ms))
            secret = ProcessSecret("one")
            async with asyncio.timeout(20):
                await secret.hold(app)
            await secret.release(app)


async def test_every_request_to_a_second_process_fails_and_the_log_says_why(
    tmp_path: Path, without_secret: None, caplog: pytest.LogCaptureFixture
) -> None:
    database = f"sqlite:///{tmp_path / 'ficha.db'}"
    async with shop(database) as first, shop(database) as second:
        key = (await first.create_api_key("root", scope="admin")).secret
        held = ProcessSecret("of another process")
        await held.hold(first)
        transport = httpx.ASGITransport(Starlette(routes=[Mount("/ficha", second.asgi())]))  # type: ignore[arg-type]
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://host", headers=headers) as admin:
            assert (await admin.get("/ficha/api/admin/accounts")).status_code == 500
            assert any("Set the same FICHA_SECRET" in line.getMessage() for line in caplog.records)
            await held.release(first)
            assert (await admin.get("/ficha/api/admin/accounts")).status_code == 200
