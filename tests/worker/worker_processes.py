"""Real worker processes for tests: started, signalled, looked at through their logs, and gone when the test is."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from ficha import Ficha
from tests.support.postgres_databases import emptied
from tests.support.processes import ROOT, ForkedProcess
from tests.support.waiting import WITHIN_S, until
from tests.worker import application

COMMAND = [sys.executable, "-m", "ficha.cli"]
SMALL_PIPE = 4_096


class WorkerProcess:
    """One worker process."""

    def __init__(self, name: str, log: Path, process: subprocess.Popen[bytes] | ForkedProcess) -> None:
        self.name = name
        self.pid = process.pid
        self._log = log
        self._process = process

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """As the machine's memory killer would. It is gone when this returns."""
        self._process.kill()
        self._process.wait(timeout=20)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    async def end(self, within_s: float = WITHIN_S) -> int:
        """What it ended with."""
        await until(lambda: not self.is_alive, within_s, f"the end of {self.name}: {self.text[-2_000:]}")
        return self._process.wait()

    @property
    def text(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """Its log, line by line; with `event`, the lines that say so."""
        whole = self.text.rpartition("\n")[0].splitlines()
        found = [json.loads(line) for line in whole if line.startswith("{")]
        return found if event is None else [line for line in found if line.get("event") == event]

    @property
    def unread(self) -> int:
        """How many bytes of its log wait for somebody to read them."""
        assert self._process.stderr is not None
        return int.from_bytes(fcntl.ioctl(self._process.stderr, termios.FIONREAD, bytes(4)), sys.byteorder)

    async def started(self) -> None:
        await until(lambda: self.lines("worker started"), what=f"{self.name} started: {self.text[-2_000:]}")

    def close(self) -> None:
        if self.is_alive:
            self.signal(signal.SIGCONT)
            self.kill()
        if self._process.stderr is not None:
            self._process.stderr.close()


class WorkerProcesses:
    """The workers of one database, and the trace of what their handlers did."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.settings: dict[str, Any] = {}
        self.processes: list[WorkerProcess] = []

    def app(self, **settings: Any) -> Ficha:
        """The same application in the test's own process; its settings are also those of the workers."""
        # They sweep at their usual pace, whatever this process does.
        self.settings = {name: value for name, value in settings.items() if name != "sweep_s"}
        return application.build(self.url, **settings)

    @asynccontextmanager
    async def opened_app(self, credits: int = 1_000, **settings: Any) -> AsyncIterator[Ficha]:
        """The application, open, with an account."""
        async with self.app(**settings) as app:
            await app.open_account("ana", credits=credits)
            yield app

    async def freeze(self, worker: WorkerProcess) -> None:
        """Stops a worker as it stands, but not in the middle of a transaction: SQLite's lock would stop everybody."""
        worker.signal(signal.SIGSTOP)
        await until_stopped(worker)
        while not self._is_writable():
            worker.signal(signal.SIGCONT)
            await asyncio.sleep(0.01)
            worker.signal(signal.SIGSTOP)
            await until_stopped(worker)

    def _is_writable(self) -> bool:
        if not self.url.startswith("sqlite:///"):
            return True
        db = apsw.Connection(self.url.removeprefix("sqlite:///"))
        db.set_busy_timeout(200)
        try:
            db.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            return False
        finally:
            db.close()
        return True

    @property
    def environment(self) -> dict[str, str]:
        return {
            application.SETTINGS: json.dumps(self.settings),
            application.TRACE: str(self.folder / "trace"),
        }

    def start(
        self,
        *options: str,
        name: str | None = None,
        deaf: bool = False,
        installed: bool = False,
        app: str = "application:app",
    ) -> WorkerProcess:
        """A worker process.

        deaf: nobody reads its log, and the pipe is soon full.
        installed: it is started from nothing, as its users start it; else by the fork server, which is sooner done.
        """
        name = name or f"w{len(self.processes) + 1}"
        named = ["--app", f"tests.worker.{app}", "--database", self.url, "--name", name]
        argv = ["worker", *named, *options]
        log = self.folder / f"{name}.log"
        process: subprocess.Popen[bytes] | ForkedProcess
        with open(log, "ab") as file:
            files: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
            if deaf:
                files |= {"stderr": subprocess.PIPE, "pipesize": SMALL_PIPE}
            environment = os.environ | self.environment
            if installed:
                process = subprocess.Popen([*COMMAND, *argv], cwd=ROOT, env=environment, **files)
            else:
                process = ForkedProcess("ficha.cli", argv, env=environment, **files)
        self.processes.append(WorkerProcess(name, log, process))
        return self.processes[-1]

    def deeds(self, what: str | None = None) -> list[list[str]]:
        """What handlers did: each line's words, without the first if that one is asked for."""
        found = application.deeds()
        return found if what is None else [words for first, *words in found if first == what]

    @property
    def trace_size(self) -> int:
        """How much was done, in bytes of the trace."""
        trace = self.folder / "trace"
        return trace.stat().st_size if trace.exists() else 0

    async def did(self, *words: object, times: int = 1) -> None:
        line = [str(word) for word in words]
        await until(lambda: application.deeds().count(line) >= times, what=f"{line} among {application.deeds()[-20:]}")

    def open(self, gate: str) -> None:
        (self.folder / gate).touch()

    def close(self) -> None:
        for worker in self.processes:
            worker.close()


async def until_stopped(worker: WorkerProcess) -> None:
    """A signal may take a moment to reach every thread."""
    await until(lambda: _is_stopped(worker.pid))


def _is_stopped(pid: int) -> bool:
    threads = Path("/proc").glob(f"{pid}/task/*/stat")
    return all(thread.read_text().rpartition(")")[2].split()[0] in "Tt" for thread in threads)


async def ended(app: Ficha, *jobs: str, within_s: float = WITHIN_S) -> list[Any]:
    """The jobs, once all have ended."""
    found: list[Any] = []

    async def all_have() -> bool:
        found[:] = [await app.job(job) for job in jobs]
        return all(job.finished_at is not None for job in found)

    try:
        await until(all_have, within_s)
    except AssertionError:
        raise AssertionError(f"not ended: {[(job.tool, job.status, job.error) for job in found]}") from None
    return found


async def submitted(app: Ficha, tool: str, **payload: Any) -> str:
    return (await app.submit(tool, payload, account="ana")).job_id


@pytest.fixture
def sqlite_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerProcesses]:
    """Worker processes on an embedded database, where the kind of database makes no difference."""
    workers = WorkerProcesses(f"sqlite:///{tmp_path / 'ficha.db'}", tmp_path)
    monkeypatch.setenv(application.TRACE, workers.environment[application.TRACE])
    yield workers
    workers.close()


@pytest.fixture(params=["sqlite", "postgresql"])
async def workers(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[WorkerProcesses]:
    """Worker processes on a fresh database of each kind that several processes can share."""
    async with AsyncExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'ficha.db'}"
        if request.param == "postgresql":
            url = await stack.enter_async_context(emptied(request.getfixturevalue("shared_database")))
        workers = WorkerProcesses(url, tmp_path)
        monkeypatch.setenv(application.TRACE, workers.environment[application.TRACE])
        stack.callback(workers.close)
        yield workers
