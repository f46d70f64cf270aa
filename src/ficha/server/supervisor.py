"""Several server processes on one port: started, restarted when they die, and stopped together.

The parent binds the socket once. The children serve it; while none of them accepts connections, the parent answers them
itself, with 503. It has a pipe to each child; if the parent is killed, the pipes close, and the children stop.
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
STEADY_S: Final = 1.0
"""A child that accepted connections for at least this long is replaced at once. So is any other that dies for the first
time; if it dies again and again, it is replaced after a pause, longer each time."""
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 5.0
ACCEPTS: Final = "accepts"
STOPS: Final = "stops"
"""The messages of a child to its parent: `ACCEPTS` and `STOPS`."""
CHILD_NAME: Final = "ficha serve "
"""What the name of each child begins with; its number follows, and its replacement has the same number."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# Not fork: a forked copy of the parent's open files and threads would be broken.
_SPAWN: Final = multiprocessing.get_context("spawn")


class Stoppable(Protocol):
    def stop(self, *, at_once: bool = False) -> None: ...


class Answering(Protocol):
    """What answers connections while no child accepts any. Both calls may be repeated."""

    def accept(self) -> None: ...

    def leave(self) -> None: ...


Started = Callable[[], None]
Serve = Callable[[socket.socket, Started, Callable[[Stoppable], None]], None]
"""What a child runs: it serves the socket until it is stopped, calls the first function once it accepts requests, and
passes to the second what to stop. It must be a module's function, or a partial of one, because it is pickled."""


class Supervisor:
    """Keeps server processes running.

    sock: a bound socket, which the children listen at.
    ready: called when the first of them accepts requests.
    stand_in: answers at the same socket while no child does, once one has.
    """

    def __init__(
        self,
        serve: Serve,
        sock: socket.socket,
        processes: int,
        *,
        grace_s: float,
        ready: Callable[[], None],
        stand_in: Answering,
    ) -> None:
        self._serve = serve
        self._sock = sock
        self._grace_s = grace_s
        self._stand_in = stand_in
        self._ready = ready
        self._has_been_ready = False
        self._children = [_Child(number) for number in range(processes)]
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
                child.read_messages(happened)
                if child.has_died(happened):
                    child.schedule_restart()
            if any(child.accepts for child in self._children):
                self._stand_in.leave()
                if not self._has_been_ready:
                    self._has_been_ready = True
                    self._ready()
            elif self._has_been_ready:
                self._stand_in.accept()
            elif all(child.has_given_up for child in self._children):
                self._stop_all("now")
                return 1
            for child in self._children:
                if child.due_at is not None and child.due_at <= time.monotonic():
                    child.start(self._serve, self._sock, self._grace_s)

    def _stop_all(self, command: str) -> int:
        self._stand_in.leave()
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

    def __init__(self, number: int) -> None:
        self._name = f"{CHILD_NAME}{number}"
        self._process: multiprocessing.context.SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._accepts_since: float | None = None
        self._failures = 0
        self.accepts = False
        self.has_given_up = False
        """Whether it ended with an error of its own before it accepted any connection. A killed one did not."""
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
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_child, args=(serve, sock, theirs, grace_s), name=self._name)
        with _signals_blocked():
            self._process.start()
        theirs.close()

    def read_messages(self, happened: Sequence[object]) -> None:
        """Reads the child's message: whether it accepts connections."""
        if self._pipe is None or self._pipe not in happened:
            return
        try:
            self.accepts = self._pipe.recv() == ACCEPTS
        except (EOFError, OSError):
            # It is about to exit, which the sentinel will show.
            self._pipe.close()
            self._pipe = None
            return
        if self.accepts:
            self._accepts_since = time.monotonic()

    def has_died(self, happened: Sequence[object]) -> bool:
        return self._process is not None and self.sentinel in happened

    def schedule_restart(self) -> None:
        """Sets when the dead process is started again."""
        assert self._process is not None
        self._process.join()  # The sentinel is ready a little before the exit code.
        now = time.monotonic()
        is_steady = self._accepts_since is not None and now - self._accepts_since >= STEADY_S
        self._failures = 0 if is_steady else self._failures + 1
        self.has_given_up = self._accepts_since is None and (self._process.exitcode or 0) > 0
        pause_s = 0.0 if self._failures <= 1 else bound_s(self._failures - 1, FIRST_PAUSE_S, LONGEST_PAUSE_S)
        log.error(
            "a server process died and will be restarted",
            extra={"pid": self._process.pid, "exit_code": self._process.exitcode, "in_s": pause_s},
        )
        self._process.close()
        self._process = None
        self.accepts, self._accepts_since = False, None
        self.due_at = now + pause_s

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

    def tell(message: str) -> None:
        # If the parent is gone, the thread below notices.
        with contextlib.suppress(OSError):
            pipe.send(message)

    def stop(server: Stoppable) -> None:
        tell(STOPS)
        server.stop()

    def stop_with(server: Stoppable) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: stop(server))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        threading.Thread(target=_listen, args=(pipe, server, grace_s), name="ficha parent", daemon=True).start()

    try:
        serve(sock, lambda: tell(ACCEPTS), stop_with)
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
