"""Starts Python programs from a process that has imported everything already: `python -m tests.support.fork_server FD`.

A program that imports Ficha spends a second of processor time on that before it does anything, and a server two. What
is started here is a process of its own all the same, with its own environment, folder, files and end;
`tests/support/processes.py` asks for it. FD is a socket: each message is a request in JSON, and brings the files that
are to be the program's standard input, output and error, and a pipe that is told the exit code.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import termios
import time
from selectors import EVENT_READ, DefaultSelector
from typing import Any, Final

import ficha
from ficha.cli import main as _command
from ficha.cli.main import command

LONGEST: Final = 1 << 20
FILES: Final = 4
LIBRARIES: Final = ("httpx", "rich.progress", "structlog", "uvicorn.lifespan.on", "uvicorn.loops.uvloop", "uvloop")
"""What Ficha imports only where it is used."""


def import_everything() -> None:
    """All of Ficha but what is for tests: a server and a worker import most of it when they start."""
    for module in pkgutil.walk_packages(ficha.__path__, "ficha."):
        if not module.name.startswith("ficha.testing") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in LIBRARIES:
        importlib.import_module(name)
    command()
    # What is here now is never looked at again by the collector of a process that is started.
    gc.collect()
    gc.freeze()


def serve(requests: socket.socket) -> dict[str, Any] | None:
    """Forks for each request, and returns it in the child; in the server, None when nobody asks any more."""
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    woken.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    ends: dict[int, int] = {}
    with DefaultSelector() as selector:
        selector.register(requests, EVENT_READ)
        selector.register(woken, EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                woken.recv(4_096)
                _tell_of_ends(ends)
            if requests in ready:
                text, files, _, _ = socket.recv_fds(requests, LONGEST, FILES)
                if not text:
                    return None
                request: dict[str, Any] = json.loads(text)
                *standard, end = files
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for ours in (requests, woken, wakes):
                        ours.close()
                    for other in (end, *ends.values()):
                        os.close(other)
                    _become(request, standard)
                    return request
                ends[pid] = end
                for file in standard:
                    os.close(file)
                requests.sendall(pid.to_bytes(4, "big"))


def _tell_of_ends(ends: dict[int, int]) -> None:
    while ends:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        with open(ends.pop(pid), "w") as end:
            end.write(str(os.waitstatus_to_exitcode(status)))


def _become(request: dict[str, Any], standard: list[int]) -> None:
    """All that the system would have done for a program that it starts."""
    if request["session"]:
        os.setsid()
    for number, file in enumerate(standard):
        os.dup2(file, number)
        os.close(file)
    if request["session"] and os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.path[0] = request["path"]
    sys.argv = request["argv"]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (open as long as the process is)
    sys.stdout = open(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    import_everything()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        asked = serve(control)
    # At the outermost level, so that the program ends as any other does.
    if asked is not None and asked["module"] is None:
        sys.exit(_command())
    elif asked is not None:
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
