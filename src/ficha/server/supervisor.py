"""Several server processes on one port: started, restarted when they die, and stopped together.

The parent binds the socket once and serves no requests. It has a pipe to each child; if the parent is killed, the pipes
close, and the children stop.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Final, Protocol

from ..backoff import bound_s

log = logging.getLogger("ficha.server")

EXIT_S: Final = 4.5
"""How long after the grace children may take to exit before they are killed."""
FORCED_EXIT_S: Final = 1.0
"""How long they may take after a second signal."""
STEADY_S: Final = 10.0
"""A child that lived for less is restarted after a pause, longer each time up to half a minute."""
LONGEST_PAUSE_S: Final = 30.0
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# Not fork: a forked copy of the parent's open files and threads would be broken.
_SPAWN: Final = multiprocessing.get_context("spawn")


class Stoppable(Protocol):
    def stop(self, *, at_once: bool = False) -> None: ...


Started = Callable[[], None]
Serve = Callable[[socket.socket, Started, Callable[[Stoppable], None]], None]
"""What a child runs: it serves the socket until it is stopped, calls the first function once it accepts requests, and
passes the second what to stop. It must be a module's function, or a partial of one, because it is pickled."""


class Supervisor:
    """Keeps server processes running. ready: called when the first of them accepts requests."""

    def __init__(
        self, serve: Serve, sock: socket.socket, processes: int, *, grace_s: float, ready: Callable[[], None]
    ) -> None:
        self._serve = serve
        self._sock = sock
        self._grace_s = grace_s
        self._ready = ready
        self._has_been_ready = False
        self._children = [_Child() for _ in range(processes)]
        self._commands, self._command_sender = _SPAWN.Pipe(duplex=False)

    def stop(self, *, at_once: bool = False) -> None:
        """Stops all children. May be called from any thread."""
        self._command_sender.send("now" if at_once else "stop")

    def run(self) -> int:
        """Keeps the children running until `stop`. Returns the exit code: 1 if they could not be started or had to be
        killed."""
        try:
            return self._supervise()
        except BaseException:
            self._stop_all("now")
            raise

    def _supervise(self) -> int:
        for child in self._children:
            child.start(self._serve, self._sock, self._grace_s)
        while True:
            now = time.monotonic()
            due = [child.due_at for child in self._children if child.due_at is not None]
            waited: list[Connection | int] = [self._commands]
            waited += [waitable for child in self._children for waitable in child.waitables]
            happened = wait(waited, None if not due else max(0.0, min(due) - now))
            if self._commands in happened:
                return self._stop_all(self._commands.recv())
            for child in self._children:
                if child.has_started(happened) and not self._has_been_ready:
                    self._has_been_ready = True
                    self._ready()
                if child.has_died(happened):
                    if not self._has_been_ready:
                        self._stop_all("now")
                        return 1
                    child.schedule_restart()
                if child.due_at is not None and child.due_at <= time.monotonic():
                    child.start(self._serve, self._sock, self._grace_s)

    def _stop_all(self, command: str) -> int:
        # The children have their copies of the socket; the last one to exit closes it, with unanswered connections.
        self._sock.close()
        for child in self._children:
            child.send(command)
        until = time.monotonic() + (FORCED_EXIT_S if command == "now" else self._grace_s + EXIT_S)
        while alive := [child for child in self._children if child.is_alive]:
            left = until - time.monotonic()
            if left <= 0:
                log.error("processes were killed: they did not stop in time", extra={"processes": len(alive)})
                for child in alive:
                    child.kill()
                return 1
            happened = wait([self._commands, *(child.sentinel for child in alive)], left)
            if self._commands in happened and self._commands.recv() == "now":
                until = min(until, time.monotonic() + FORCED_EXIT_S)
                for child in alive:
                    child.send("now")
        return 0


class _Child:
    """One of the server's processes, across restarts."""

    def __init__(self) -> None:
        self._process: multiprocessing.context.SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._started_at = 0.0
        self._failures = 0
        self.due_at: float | None = None

    @property
    def sentinel(self) -> int:
        assert self._process is not None
        return self._process.sentinel

    @property
    def waitables(self) -> list[Connection | int]:
        """What to wait for: its exit, and its messages."""
        if self._process is None:
            return []
        return [self.sentinel] if self._pipe is None else [self.sentinel, self._pipe]

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def start(self, serve: Serve, sock: socket.socket, grace_s: float) -> None:
        self.due_at = None
        self._started_at = time.monotonic()
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_child, args=(serve, sock, theirs, grace_s), name="ficha serve")
        with _signals_blocked():
            self._process.start()
        theirs.close()

    def has_started(self, happened: Sequence[object]) -> bool:
        if self._pipe is None or self._pipe not in happened:
            return False
        try:
            self._pipe.recv()
        except (EOFError, OSError):
            # It is about to exit, which the sentinel will show.
            self._pipe.close()
            self._pipe = None
            return False
        return True

    def has_died(self, happened: Sequence[object]) -> bool:
        return self._process is not None and self.sentinel in happened

    def schedule_restart(self) -> None:
        """Sets when the dead process is started again."""
        assert self._process is not None
        self._process.join()  # The sentinel is ready a little before the exit code.
        lived_s = time.monotonic() - self._started_at
        self._failures = 0 if lived_s >= STEADY_S else self._failures + 1
        pause_s = 0.0 if self._failures <= 1 else bound_s(self._failures, 1.0, LONGEST_PAUSE_S)
        log.error(
            "a server process died and will be restarted",
            extra={"pid": self._process.pid, "exit_code": self._process.exitcode, "in_s": pause_s},
        )
        self._process.close()
        self._process = None
        self.due_at = time.monotonic() + pause_s

    def send(self, command: str) -> None:
        if self._pipe is not None and self.is_alive:
            with contextlib.suppress(OSError):
                self._pipe.send(command)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.join()


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Blocks signals in a child started meanwhile, until it has installed its handlers: it has much to import first."""
    resource_tracker.ensure_running()  # Started now, since its own start would unblock the same signals.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _child(serve: Serve, sock: socket.socket, pipe: Connection, grace_s: float) -> None:
    """The entry point of a child. Ctrl-C reaches all processes of a terminal, but only the parent acts on it; SIGTERM
    to a single child stops that child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def stop_with(server: Stoppable) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: server.stop())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        threading.Thread(target=_listen, args=(pipe, server, grace_s), name="ficha parent", daemon=True).start()

    def started() -> None:
        # If the parent is gone, the thread above notices.
        with contextlib.suppress(OSError):
            pipe.send("started")

    try:
        serve(sock, started, stop_with)
    except Exception as error:
        log.exception("a server process failed", extra={"error": f"{type(error).__name__}: {error}"})
        os._exit(1)


def _listen(pipe: Connection, server: Stoppable, grace_s: float) -> None:
    command = ""
    while command != "now":
        try:
            command = pipe.recv()
        except (EOFError, OSError):
            timer = threading.Timer(grace_s + EXIT_S, os._exit, (1,))
            timer.daemon = True
            timer.start()
            server.stop()
            return
        server.stop(at_once=command == "now")
