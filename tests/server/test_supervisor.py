"""The parent of several server processes, with children that are quick to start: what callers see while they die."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from ficha.server import supervisor
from ficha.server.serving import bound
from ficha.server.stand_in import StandIn
from ficha.server.supervisor import Supervisor
from tests.server.light_child import serve
from tests.support.server_process import NO_TLS
from tests.support.waiting import until_sync


@pytest.fixture(autouse=True)
def quick_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children are forked from a process that has imported what they need, so that they start in a moment. (In
    `test_serving.py` they start as in production.)"""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([serve.__module__])
    monkeypatch.setattr(supervisor, "_SPAWN", context)


class Running:
    def __init__(self, folder: Path, processes: int) -> None:
        self.folder = folder
        self.sock = bound("127.0.0.1", 0)
        self.address = self.sock.getsockname()
        self.is_ready = threading.Event()
        self.supervisor = Supervisor(
            partial(serve, folder),
            self.sock,
            processes,
            grace_s=20,
            ready=self.is_ready.set,
            stand_in=StandIn(self.sock),
        )
        self.codes: list[int] = []
        self.thread = threading.Thread(target=lambda: self.codes.append(self.supervisor.run()))

    def answer(self) -> httpx.Response | None:
        """What a new caller gets; None where the child that had taken the connection died."""
        host, port = self.address
        try:
            return httpx.get(f"http://{host}:{port}/healthz", trust_env=False, timeout=20, verify=NO_TLS)
        except (httpx.ReadError, httpx.RemoteProtocolError):
            return None

    def status(self) -> int | None:
        answer = self.answer()
        return None if answer is None else answer.status_code

    @property
    def started(self) -> list[int]:
        """The children that were started, in order."""
        path = self.folder / "started"
        return list(map(int, path.read_text().split())) if path.exists() else []


@contextmanager
def running(folder: Path, processes: int = 1) -> Iterator[Running]:
    server = Running(folder, processes)
    server.thread.start()
    try:
        yield server
    finally:
        for path in folder.iterdir():
            if path.name != "started":
                path.unlink()
        if server.thread.is_alive():
            server.supervisor.stop()
        server.thread.join(40)
        server.sock.close()
    assert not server.thread.is_alive()


def test_every_caller_is_answered_while_children_are_killed_again_and_again(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.is_ready.wait(40)
        seen = set()
        for _ in range(3):
            alive = server.started[-1]
            os.kill(alive, signal.SIGKILL)
            # Each kill comes as soon as the child has begun to start, so that nobody serves for a while.
            until_sync(lambda alive=alive: seen.add(server.status()) or server.started[-1] != alive)
        until_sync(lambda: server.status() == 200)
    assert 503 in seen, seen
    assert seen <= {None, 200, 503}
    assert server.codes == [0]


def test_a_caller_is_told_to_come_back_while_no_child_serves(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.is_ready.wait(40)
        (tmp_path / "fails").touch()
        os.kill(server.started[-1], signal.SIGKILL)
        answer = until_sync(lambda: (got := server.answer()) is not None and got.status_code == 503 and got)
        told = answer.json()
        assert (told["code"], told["retryable"], told["retry_after_s"]) == ("OVERLOADED", True, 1)
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["connection"] == "close"
        assert answer.headers["x-correlation-id"] == told["correlation_id"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        (tmp_path / "fails").unlink()
        # Soon only the child answers.
        until_sync(lambda: {server.status() for _ in range(20)} == {200})


def test_a_child_that_stops_by_itself_leaves_no_caller_waiting(tmp_path: Path) -> None:
    (tmp_path / "lingers").touch()
    with running(tmp_path) as server:
        server.is_ready.wait(40)
        [stopping] = server.started
        os.kill(stopping, signal.SIGTERM)
        until_sync(lambda: server.status() == 503)
        assert server.started == [stopping]  # It still has its grace.
        (tmp_path / "lingers").unlink()
        until_sync(lambda: server.status() == 200)


def test_a_child_that_is_killed_before_any_serves_does_not_end_the_server(tmp_path: Path) -> None:
    (tmp_path / "dies").touch()
    with running(tmp_path) as server:
        assert server.is_ready.wait(40)
        assert len(server.started) == 2
        assert server.status() == 200
    assert server.codes == [0]


def test_nobody_can_connect_before_the_first_child_serves(tmp_path: Path) -> None:
    (tmp_path / "fails").touch()
    with running(tmp_path, processes=2) as server:
        with pytest.raises(httpx.ConnectError):
            server.answer()
        server.thread.join(40)
        assert server.codes == [1]
        assert not server.is_ready.is_set()
