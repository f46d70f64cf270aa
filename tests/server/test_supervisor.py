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
from tests.server.light_child import prepare
from tests.support.server_process import NO_TLS
from tests.support.waiting import until_sync


@pytest.fixture(autouse=True)
def quick_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children are forked from a process that has imported what they need, so that they start in a moment. (In
    `test_serving.py` they start as in production.)"""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([prepare.__module__])
    monkeypatch.setattr(supervisor, "_SPAWN", context)


class Running:
    def __init__(self, folder: Path, processes: int) -> None:
        self.folder = folder
        self.sock = bound("127.0.0.1", 0)
        self.address = self.sock.getsockname()
        self.is_ready = threading.Event()
        self.supervisor = Supervisor(
            partial(prepare, folder),
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
    def prepared(self) -> list[int]:
        """The children that have prepared themselves, in order."""
        return self._pids("prepared")

    @property
    def told(self) -> list[int]:
        """Those that were told to serve, in order."""
        return self._pids("told")

    def _pids(self, name: str) -> list[int]:
        path = self.folder / name
        return list(map(int, path.read_text().split())) if path.exists() else []


@contextmanager
def running(folder: Path, processes: int = 1) -> Iterator[Running]:
    server = Running(folder, processes)
    server.thread.start()
    try:
        yield server
    finally:
        for path in folder.iterdir():
            if path.name not in ("prepared", "told"):
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
        for _ in range(5):
            alive = server.told[-1]
            os.kill(alive, signal.SIGKILL)
            # Each kill comes as soon as a child was told to serve. So soon there is no spare, and nobody serves.
            until_sync(lambda alive=alive: seen.add(server.status()) or server.told[-1] != alive)
        until_sync(lambda: server.status() == 200)
    assert 503 in seen, seen
    assert seen <= {None, 200, 503}
    assert server.codes == [0]


def test_a_caller_is_told_to_come_back_while_no_child_serves(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.is_ready.wait(40)
        (tmp_path / "fails").touch()
        os.kill(server.told[-1], signal.SIGKILL)
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


def test_the_spare_serves_when_all_are_killed_before_any_other_has_started(tmp_path: Path) -> None:
    with running(tmp_path, processes=2) as server:
        until_sync(lambda: len(server.prepared) == 3)
        [spare] = set(server.prepared) - set(server.told)
        # Nobody can be started from now on: it would take as long as this file is there.
        (tmp_path / "holds").touch()
        for pid in server.told:
            os.kill(pid, signal.SIGKILL)
        until_sync(lambda: (answer := server.answer()) is not None and answer.text == str(spare))
        assert server.told[2:] == [spare]
        (tmp_path / "holds").unlink()
        # Both others are started: one serves, and one is the next spare.
        until_sync(lambda: len(server.prepared) == 5)
        until_sync(lambda: len(server.told) == 4)


def test_a_spare_that_dies_is_replaced_and_no_caller_notices(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        until_sync(lambda: len(server.prepared) == 2)
        for number in (signal.SIGKILL, signal.SIGTERM):
            [serving, spare] = server.told[-1], server.prepared[-1]
            count = len(server.prepared)
            os.kill(spare, number)
            until_sync(lambda count=count: len(server.prepared) == count + 1)
            assert server.told == [serving]
            assert server.status() == 200


def test_a_child_that_stops_by_itself_gives_up_its_place_at_once(tmp_path: Path) -> None:
    (tmp_path / "lingers").touch()
    with running(tmp_path) as server:
        until_sync(lambda: len(server.prepared) == 2)
        stopping, spare = server.prepared
        os.kill(stopping, signal.SIGTERM)
        # It still has its grace.
        until_sync(lambda: (answer := server.answer()) is not None and answer.text == str(spare))
        assert len(server.prepared) == 2
        (tmp_path / "lingers").unlink()
        until_sync(lambda: len(server.prepared) == 3)


def test_callers_of_the_last_child_that_stops_are_answered_without_a_spare(tmp_path: Path) -> None:
    (tmp_path / "lingers").touch()
    with running(tmp_path) as server:
        until_sync(lambda: len(server.prepared) == 2)
        (tmp_path / "holds").touch()
        stopping, spare = server.prepared
        os.kill(spare, signal.SIGKILL)
        os.kill(stopping, signal.SIGTERM)
        until_sync(lambda: server.status() == 503)
        (tmp_path / "lingers").unlink()
        (tmp_path / "holds").unlink()
        until_sync(lambda: server.status() == 200)


def test_a_child_that_is_killed_before_any_serves_does_not_end_the_server(tmp_path: Path) -> None:
    (tmp_path / "dies").touch()
    with running(tmp_path) as server:
        assert server.is_ready.wait(40)
        assert len(server.told) == 2
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
