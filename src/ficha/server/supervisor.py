"""Several processes on one port: started, started again when they die, and ended together.

The parent binds the socket once and answers nothing itself. It speaks with each child over a pipe; should the parent be
killed, the pipe ends, and its children stop by themselves.
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

log = logging.getLogger("ficha.server")

LEAVE_S: Final = 4.5
"""Beyond the grace, children that have not ended by then are killed."""
AT_ONCE_S: Final = 1.0
"""What a second signal leaves them."""
STEADY_S: Final = 10.0
"""A child that lived for less waits before it is started again, longer each time up to half a minute."""
LONGEST_PAUSE_S: Final = 30.0
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# Not by forking: what a process has imported and opened by now is no start for another.
_SPAWN: Final = multiprocessing.get_context("spawn")


class Stoppable(Protocol):
    def stop(self, *, at_once: bool = False) -> None: ...


Started = Callable[[], None]
Serve = Callable[[socket.socket, Started, Callable[[Stoppable], None]], None]
"""What a child does: serve the socket until it is stopped. It calls the first function once it answers, and tells the
second what to stop. A function of a module, or a partial of one: it travels to the child."""


class Supervisor:
    """ready: called when the first child answers."""

    def __init__(
        self, serve: Serve, sock: socket.socket, processes: int, *, grace_s: float, ready: Callable[[], None]
    ) -> None:
        self._serve = serve
        self._sock = sock
        self._grace_s = grace_s
        self._ready = ready
        self._has_been_ready = False
        self._children = [_Child() for _ in range(processes)]
        self._words, self._word = _SPAWN.Pipe(duplex=False)

    def stop(self, *, at_once: bool = False) -> None:
        """Ends all children. From any thread."""
        self._word.send("now" if at_once else "stop")

    def run(self) -> int:
        """Keeps the children running until `stop`. Returns the exit code: 1 if they cannot be started, or had to be
        killed."""
        try:
            return self._keep()
        except BaseException:
            self._end("now")
            raise

    def _keep(self) -> int:
        for child in self._children:
            child.start(self._serve, self._sock, self._grace_s)
        while True:
            now = time.monotonic()
            due = [child.due_at for child in self._children if child.due_at is not None]
            waited: list[Connection | int] = [self._words]
            waited += [part for child in self._children for part in child.parts]
            happened = wait(waited, None if not due else max(0.0, min(due) - now))
            if self._words in happened:
                return self._end(self._words.recv())
            for child in self._children:
                if child.has_started(happened) and not self._has_been_ready:
                    self._has_been_ready = True
                    self._ready()
                if child.has_died(happened):
                    if not self._has_been_ready:
                        self._end("now")
                        return 1
                    child.plan()
                if child.due_at is not None and child.due_at <= time.monotonic():
                    child.start(self._serve, self._sock, self._grace_s)

    def _end(self, word: str) -> int:
        # The last copy of the socket goes with the last child, and with it the callers that nobody has answered.
        self._sock.close()
        for child in self._children:
            child.say(word)
        until = time.monotonic() + (AT_ONCE_S if word == "now" else self._grace_s + LEAVE_S)
        while alive := [child for child in self._children if child.is_alive]:
            left = until - time.monotonic()
            if left <= 0:
                log.error("processes were killed: they did not end in time", extra={"processes": len(alive)})
                for child in alive:
                    child.kill()
                return 1
            happened = wait([self._words, *(child.sentinel for child in alive)], left)
            if self._words in happened and self._words.recv() == "now":
                until = min(until, time.monotonic() + AT_ONCE_S)
                for child in alive:
                    child.say("now")
        return 0


class _Child:
    """One of the processes, whichever it is at the moment."""

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
    def parts(self) -> list[Connection | int]:
        """What there is to wait for."""
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
        with _signals_wait():
            self._process.start()
        theirs.close()

    def has_started(self, happened: Sequence[object]) -> bool:
        if self._pipe is None or self._pipe not in happened:
            return False
        try:
            self._pipe.recv()
        except (EOFError, OSError):
            # It is about to end, which its sentinel tells.
            self._pipe.close()
            self._pipe = None
            return False
        return True

    def has_died(self, happened: Sequence[object]) -> bool:
        return self._process is not None and self.sentinel in happened

    def plan(self) -> None:
        """When it is started again after it died."""
        assert self._process is not None
        self._process.join()  # Its sentinel tells of its end a little before it has one.
        lived_s = time.monotonic() - self._started_at
        self._failures = 0 if lived_s >= STEADY_S else self._failures + 1
        pause_s = 0.0 if self._failures <= 1 else min(LONGEST_PAUSE_S, 0.5 * 2.0 ** min(self._failures, 10))
        log.error(
            "a process died and is started again",
            extra={"pid": self._process.pid, "exit_code": self._process.exitcode, "in_s": pause_s},
        )
        self._process.close()
        self._process = None
        self.due_at = time.monotonic() + pause_s

    def say(self, word: str) -> None:
        if self._pipe is not None and self.is_alive:
            with contextlib.suppress(OSError):
                self._pipe.send(word)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.join()


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """For a child that is born in here, until it knows what to do about them: it has much to import first."""
    resource_tracker.ensure_running()  # It lets the same signals through when it starts its own process.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _child(serve: Serve, sock: socket.socket, pipe: Connection, grace_s: float) -> None:
    """The whole life of a child. A terminal's Ctrl-C goes to every process of its group, but what follows from it is
    the parent's to say; SIGTERM for one child alone stops that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def stop_with(server: Stoppable) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: server.stop())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        threading.Thread(target=_listen, args=(pipe, server, grace_s), name="ficha parent", daemon=True).start()

    def started() -> None:
        # That the parent is gone is noticed by the thread above.
        with contextlib.suppress(OSError):
            pipe.send("started")

    try:
        serve(sock, started, stop_with)
    except Exception as error:
        log.exception("a process failed", extra={"error": f"{type(error).__name__}: {error}"})
        os._exit(1)


def _listen(pipe: Connection, server: Stoppable, grace_s: float) -> None:
    word = ""
    while word != "now":
        try:
            word = pipe.recv()
        except (EOFError, OSError):
            timer = threading.Timer(grace_s + LEAVE_S, os._exit, (1,))
            timer.daemon = True
            timer.start()
            server.stop()
            return
        server.stop(at_once=word == "now")
