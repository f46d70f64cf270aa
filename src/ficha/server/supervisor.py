"""Several server processes on one port: started, replaced when they die, and stopped together.

The parent binds the socket once. The children serve it; while none of them accepts connections, the parent answers them
itself, with 503. One child more than serve is prepared: it has imported all, and takes the place of the next that dies.
So callers never wait for a start, which takes many seconds on a busy machine. The parent has a pipe to each child; if
the parent is killed, the pipes close, and the children stop.
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
"""A child that accepted connections for at least this long is started again at once. So is any other that dies for the
first time; if it dies again and again, it is started after a pause, longer each time."""
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 5.0
SERVE: Final = "serve"
"""What the parent tells a prepared child when there is a place for it. Later commands are "stop" and "now"."""
PREPARED: Final = "prepared"
ACCEPTS: Final = "accepts"
STOPS: Final = "stops"
"""The messages of a child to its parent, in this order."""
CHILD_NAME: Final = "ficha serve "
"""What the name of each child begins with; its number follows. A child that is started again keeps its number."""
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
"""Serves the socket until it is stopped, calls the first function once it accepts requests, and passes to the second
what to stop."""
Prepare = Callable[[], Serve]
"""What a child runs: it does all that takes long and needs no place, such as imports, and returns how to serve. It must
be a module's function, or a partial of one, because it is pickled."""


class Supervisor:
    """Keeps server processes running.

    sock: a bound socket, which the children listen at.
    processes: how many of them serve at a time.
    ready: called when the first of them accepts requests.
    stand_in: answers at the same socket while no child does, once one has.
    """

    def __init__(
        self,
        prepare: Prepare,
        sock: socket.socket,
        processes: int,
        *,
        grace_s: float,
        ready: Callable[[], None],
        stand_in: Answering,
    ) -> None:
        self._prepare = prepare
        self._sock = sock
        self._places = processes
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
        while True:
            for child in self._children:
                if child.due_at is not None and child.due_at <= time.monotonic():
                    child.start(self._prepare, self._sock, self._grace_s)
            happened = self._wait()
            if self._commands in happened:
                return self._stop_all(self._commands.recv())
            for child in self._children:
                child.read_messages(happened)
                if child.has_died(happened):
                    child.schedule_restart()
            self._fill_places()
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
            if len(self._children) == self._places and all(child.accepts for child in self._children):
                # The spare is started last, so that it does not delay those that serve.
                self._children.append(_Child(self._places))

    def _fill_places(self) -> None:
        """Tells prepared children to serve, as many as there are free places."""
        free = self._places - sum(child.has_place for child in self._children)
        for child in [child for child in self._children if child.is_spare][:free]:
            child.serve()

    def _wait(self) -> list[object]:
        """Waits until something happens to a child, one is due to be started, or a command arrives."""
        waited: list[Connection | int] = [self._commands]
        waited += [waitable for child in self._children for waitable in child.waitables]
        due = [child.due_at for child in self._children if child.due_at is not None]
        return list(wait(waited, None if not due else max(0.0, min(due) - time.monotonic())))

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
        self.is_spare = False
        """Whether it is prepared, and not told to serve."""
        self.has_place = False
        """Whether it was told to serve. A child that stops gives up its place."""
        self.accepts = False
        self.has_given_up = False
        """Whether it ended with an error of its own before it accepted any connection. A killed one did not."""
        self.due_at: float | None = time.monotonic()

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

    def start(self, prepare: Prepare, sock: socket.socket, grace_s: float) -> None:
        """Starts its process, which prepares itself and waits until it is told to serve."""
        self.due_at = None
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_child, args=(prepare, sock, theirs, grace_s), name=self._name)
        with _signals_blocked():
            self._process.start()
        theirs.close()

    def serve(self) -> None:
        self.is_spare, self.has_place = False, True
        self.send(SERVE)

    def read_messages(self, happened: Sequence[object]) -> None:
        """Reads the child's message."""
        if self._pipe is None or self._pipe not in happened:
            return
        try:
            message = self._pipe.recv()
        except (EOFError, OSError):
            # It is about to exit, which the sentinel will show.
            self._pipe.close()
            self._pipe = None
            return
        self.is_spare, self.accepts = message == PREPARED, message == ACCEPTS
        if self.accepts:
            self._accepts_since = time.monotonic()
        if message == STOPS:
            self.has_place = False

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
        self.is_spare = self.has_place = self.accepts = False
        self._accepts_since = None
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


def _child(prepare: Prepare, sock: socket.socket, pipe: Connection, grace_s: float) -> None:
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
        serve = prepare()
        tell(PREPARED)
        if not _is_told_to_serve(pipe):
            os._exit(0)  # Nothing was begun; no thread of the application's own keeps the process.
        serve(sock, lambda: tell(ACCEPTS), stop_with)
    except Exception as error:
        log.exception("a server process failed", extra={"error": f"{type(error).__name__}: {error}"})
        os._exit(1)


def _is_told_to_serve(pipe: Connection) -> bool:
    """Waits for the parent's first command. Meanwhile SIGTERM ends this process: it has nothing to finish."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        return bool(pipe.recv() == SERVE)
    except (EOFError, OSError):
        return False  # The parent is gone.
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


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
