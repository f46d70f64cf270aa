"""The example studio's provider simulator in a process of its own, and a receiver of call-backs on the loopback."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import httpx

from tests.support.processes import ROOT, ForkedProcess
from tests.support.server_process import NO_TLS
from tests.support.waiting import until_sync


class Simulated:
    """A running simulator. Its README.md says what it can be told."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.replicate = f"{url}/replicate/v1"
        self.fal = f"{url}/fal"
        self.runninghub = f"{url}/runninghub"
        self.plain = f"{url}/plain"
        self._http = httpx.Client(base_url=url, trust_env=False, verify=NO_TLS, timeout=30)

    def task(self, **behaviour: Any) -> None:
        """Plans the next task."""
        self._json("POST", "/control", {"task": behaviour})

    def answer(self, fault: str | None = None, **behaviour: Any) -> None:
        """Plans the next answer."""
        self._json("POST", "/control", {"answer": {"fault": fault, **behaviour}})

    def behave(self) -> None:
        """Forgets what was planned; tasks and files stay."""
        self._json("DELETE", "/control/plan")

    def reset(self) -> None:
        self._json("DELETE", "/control")

    def log(self, on: str | None = None) -> list[dict[str, Any]]:
        return [entry for entry in self._json("GET", "/control/log") if on in (None, entry["on"])]

    def tasks(self) -> list[dict[str, Any]]:
        return self._json("GET", "/control/tasks")

    def finish(self, task_id: str, fail: str | None = None) -> None:
        self._json("POST", f"/control/tasks/{task_id}/finish", {"fail": fail})

    def callback(self, task_id: str, **told: Any) -> list[int | None]:
        """Has a call-back sent now, and says how it was answered."""
        return self._json("POST", f"/control/tasks/{task_id}/callback", told)["answers"]

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._http.request(method, path, **options)

    def until_over(self, task_id: str) -> str:
        """The state of a task once it has ended."""

        def state() -> str | None:
            (task,) = [task for task in self.tasks() if task["id"] == task_id]
            return task["state"] if task["state"] not in ("queued", "working") else None

        return until_sync(state, what=f"task {task_id} has ended")

    def close(self) -> None:
        self._http.close()

    def _json(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()


@contextmanager
def simulated(*, seconds: float = 0.0, retry_seconds: float = 0.02) -> Iterator[Simulated]:
    """A simulator whose tasks take no time."""
    arguments = ("--port", "0", "--seconds", str(seconds), "--retry-seconds", str(retry_seconds))
    process = ForkedProcess(
        "provider_simulator", arguments, cwd=ROOT / "examples/studio", stdout=subprocess.PIPE, text=True
    )
    try:
        with process.stdout:
            simulator = Simulated(process.stdout.readline().strip())
        try:
            yield simulator
        finally:
            simulator.close()
    finally:
        process.terminate()
        process.wait(30)


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Takes call-backs, and answers each with the next of `answers`, or with 200."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                receiver.received.append(Received(self.path, dict(self.headers), body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def until(self, count: int) -> list[Received]:
        until_sync(lambda: len(self.received) >= count, what=f"{count} call-backs have come")
        return self.received

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()


@contextmanager
def receiver() -> Iterator[Receiver]:
    listening = Receiver()
    try:
        yield listening
    finally:
        listening.close()
