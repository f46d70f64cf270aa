"""Processes of Python programs that import Ficha, started without the time that the imports take."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


class ForkedProcess:
    """A process that the fork server made; to be used like a `subprocess.Popen`.

    module: what `python -m` would run; None for the installed command `ficha`.
    stdin, stdout, stderr: as for `Popen`: a file, a descriptor, DEVNULL or PIPE.
    session: whether it gets a session of its own.
    """

    def __init__(
        self,
        module: str | None,
        arguments: Sequence[str],
        *,
        cwd: str | Path = ROOT,
        env: Mapping[str, str] | None = None,
        stdin: Any = subprocess.DEVNULL,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = False,
        pipesize: int = -1,
        session: bool = False,
    ) -> None:
        self.args = [module or "ficha", *arguments]
        self.returncode: int | None = None
        given: list[int] = []
        opened: list[int] = []
        pipes: list[IO[Any] | None] = []
        for number, wanted in enumerate((stdin, stdout, stderr)):
            ours = None
            if wanted == subprocess.PIPE:
                ends = os.pipe()
                if pipesize > 0:
                    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, pipesize)
                theirs, mine = ends if number == 0 else ends[::-1]
                mode = ("w" if number == 0 else "r") + ("" if text else "b")
                ours = open(mine, mode, buffering=1 if text else -1)  # noqa: SIM115 (open as long as the process is)
                opened.append(theirs)
            elif wanted == subprocess.DEVNULL:
                theirs = os.open(os.devnull, os.O_RDWR)
                opened.append(theirs)
            else:
                theirs = number if wanted is None else wanted if isinstance(wanted, int) else wanted.fileno()
            given.append(theirs)
            pipes.append(ours)
        self.stdin, self.stdout, self.stderr = pipes
        self._end, told = os.pipe()
        request = {
            "module": module,
            "argv": self.args,
            "cwd": str(cwd),
            "path": str(BIN if module is None else cwd),
            "environment": dict(os.environ if env is None else env),
            "session": session,
        }
        try:
            self.pid = _server().start(request, [*given, told])
        finally:
            for file in (*opened, told):
                os.close(file)

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def _ended(self, within_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], within_s)[0]:
            code = os.read(self._end, 16)
            os.close(self._end)
            assert code, "the fork server has ended"
            self.returncode = int(code)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # It may have ended, though the fork server has not said so yet.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, given: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """All that it writes, once it has ended."""
        found: list[Any] = [None, None]

        def read(place: int, pipe: IO[Any]) -> None:
            with pipe:
                found[place] = pipe.read()

        pipes = [(place, pipe) for place, pipe in enumerate((self.stdout, self.stderr)) if pipe is not None]
        readers = [threading.Thread(target=read, args=one, daemon=True) for one in pipes]
        for reader in readers:
            reader.start()
        if self.stdin is not None:
            with self.stdin as pipe:
                if given:
                    pipe.write(given)
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
            assert not reader.is_alive(), "somebody else still writes"
        return found[0], found[1]

    def __enter__(self) -> ForkedProcess:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdout, self.stderr, self.stdin):
            if pipe is not None:
                pipe.close()
        self.wait()


def run(
    module: str | None, *arguments: str, given: str | None = None, timeout: float = 60, **options: Any
) -> subprocess.CompletedProcess[str]:
    """What became of a program that runs to its end, as from `subprocess.run` with its output captured."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    if given is not None:
        pipes["stdin"] = subprocess.PIPE
    process = ForkedProcess(module, arguments, **pipes | options)
    try:
        out, err = process.communicate(given, timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.wait(), out, err)


class _ForkServer:
    """The one of this process, which ends with it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def start(self, request: dict[str, Any], files: list[int]) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            answer = self._socket.recv(4)
        assert answer, "the fork server has ended"
        return int.from_bytes(answer, "big")

    def close(self) -> None:
        self._socket.close()
        self._process.wait(10)


_servers: list[_ForkServer] = []


def _server() -> _ForkServer:
    if not _servers:
        _servers.append(_ForkServer())
    return _servers[0]
