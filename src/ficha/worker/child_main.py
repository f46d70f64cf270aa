"""A child process: finds its tool's handler, runs it for one job after the other, and asks the worker for all else.

What travels over the pipe is JSON, each message after its length in four bytes. The main thread runs the loop, where
the handler's coroutine may block it; a thread of its own reads the pipe, so that the worker's end is noticed even then.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import logging
import logging.handlers
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

import msgspec
from msgspec import Raw, Struct

from ..core.outcomes import Refusal
from ..core.payload import canonical
from ..errors import Refused
from ..payload_schema import payload_of
from ..store.base import StoreError
from ..tools import Tool
from .context import Facts, JobContext
from .failure import Failure
from .handler_call import handled
from .results import Accepted, Cancel, Partial, Retry

MESSAGE_BYTES: Final = 64 * 2**20
"""The largest value that is sent; the worker's own limits are far below."""
VALUE_DEPTH: Final = 400
"""How deep a value may be nested to be sent; as above."""
TIDY_S: Final = 1.0
"""How long a child that is no longer wanted may take to end by itself."""
STACK_BYTES: Final = 256 * 1024
"""The stack of the child's own threads: the usual 8 MiB would count against the tool's memory."""

STOPPING: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask a worker to stop, and that may be sent to all of its processes at once."""

HEADROOM_BYTES: Final = 10 * 2**20
"""What a run needs at least: the stack of a handler's thread, and a little."""

Named = tuple[str, str]
"""A function or class by its module and its qualified name."""


class Recipe(Struct, frozen=True):
    """What a child is started for."""

    tool: str
    handler: Named
    fatal: tuple[Named, ...]
    memory_mb: int | None
    levels: dict[str, int]
    """The worker's log levels by logger; "" is the root."""


# What the worker says


class Begin(Struct, tag=True):
    """Run the handler for this job. The number tells its words from those of earlier runs."""

    run: int
    facts: Facts


class Stop(Struct, tag=True):
    """The run is to stop."""


class ParentReply(Struct, tag=True):
    """What became of what a run said."""

    number: int
    value: Any = None
    refusal: Refusal | None = None
    error: str | None = None


# What the child says


class ChildReady(Struct, tag=True):
    """The handler was looked for, and jobs are taken."""


class Said(Struct, tag=True):
    """A verb of the job's desk with its arguments: a list and a mapping."""

    run: int
    number: int
    verb: str
    given: Raw


class Ended(Struct, tag=True):
    """What the handler returned or raised: a value of the kind named, or else plain JSON."""

    value: Raw
    kind: str | None = None
    is_spent: bool = False
    """The child is not to be used again."""


class Logged(Struct, tag=True):
    """A line of the log, with its fields."""

    fields: dict[str, Any]


KINDS: Final = {kind.__name__: kind for kind in (Accepted, Cancel, Failure, Partial, Retry)}
to_child: Final = msgspec.json.Decoder(Begin | Stop | ParentReply)
to_worker: Final = msgspec.json.Decoder(ChildReady | Said | Ended | Logged)
_encoder: Final = msgspec.json.Encoder(enc_hook=repr)


def framed(message: Struct) -> bytes:
    text = _encoder.encode(message)
    return len(text).to_bytes(4, "big") + text


def main(pipe: socket.socket, recipe: Recipe) -> None:
    """What a new process runs."""
    # With a session of its own, whatever the handler starts can be ended with it, and Ctrl-C goes to the worker alone.
    os.setsid()
    # A signal for the whole family is the worker's to answer; it says what is to stop. What the handler starts gets the
    # default action back, which it would not for a signal that is ignored.
    _answer_signals(lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    os.register_at_fork(after_in_child=_be_a_fork)
    pipe.set_inheritable(False)
    line = Line(pipe)
    _die_with_parent()
    _forward_logs(line, recipe.levels)
    # Before the loop runs: a module may well run one of its own while it is imported.
    servant = Servant(line, recipe)
    asyncio.run(servant.serve())


class Line:
    """The child's end of the pipe. Any thread may send."""

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def send(self, message: Struct) -> None:
        if os.getpid() != self._pid:
            # The handler forked, and its child came back here: it must not speak for the job.
            os._exit(0)
        frame = framed(message)
        with self._lock:
            self._pipe.sendall(frame)

    def read(self, take: Callable[[Begin | Stop | ParentReply], Any]) -> None:
        """Hands over each message until the worker hangs up."""
        with self._pipe.makefile("rb") as file:
            while len(head := file.read(4)) == 4:
                take(to_child.decode(file.read(int.from_bytes(head, "big"))))


class Servant:
    """Runs the handler, one job at a time."""

    def __init__(self, line: Line, recipe: Recipe) -> None:
        self._line = line
        self._recipe = recipe
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._job: JobContext | None = None
        self._task: asyncio.Task[Ended] | None = None
        self._tool = self._find()

    async def serve(self) -> None:
        """Until the worker hangs up."""
        self._loop = asyncio.get_running_loop()
        self._is_over = asyncio.Event()
        _start_thread("ficha pipe", self._listen)
        self._limit()
        self._line.send(ChildReady())
        await self._is_over.wait()

    def _find(self) -> Tool | Failure:
        recipe = self._recipe
        try:
            handler = _named(recipe.handler)
            payload = payload_of(recipe.tool, handler)
            fatal = tuple(map(_named, recipe.fatal))
        except BaseException as error:
            found = ".".join(recipe.handler)
            return Failure(f"the job's process could not import {found}: {type(error).__name__}: {error}")
        return Tool(name=recipe.tool, handler=handler, payload=payload, fatal=fatal)

    def _listen(self) -> None:
        try:
            self._line.read(lambda message: self._loop.call_soon_threadsafe(self._take, message))
        finally:
            # The worker hung up or is gone. A run that is under way has nobody to answer to.
            if self._task is None:
                self._loop.call_soon_threadsafe(self._is_over.set)
                time.sleep(TIDY_S)
            _end_family()

    def _take(self, message: Begin | Stop | ParentReply) -> None:
        match message:
            case Begin(run, facts):
                self._job = JobContext(facts, partial(self._say, run))
                self._task = self._loop.create_task(self._run(self._job))
                self._task.add_done_callback(self._done)
            case Stop():
                # From here on the worker may end this process, and the default action does so at once.
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                if self._job is not None and self._task is not None:
                    self._job.stop()
                    self._task.cancel()
            case ParentReply(number, value, refusal, error):
                answer = self._waiting.pop(number)
                if answer.cancelled():
                    return
                if refusal is not None:
                    answer.set_exception(Refused.of(refusal))
                elif error is not None:
                    answer.set_exception(StoreError(error))
                else:
                    answer.set_result(value)

    async def _say(self, run: int, verb: str, *args: Any, **options: Any) -> Any:
        given = canonical(
            [args, options], what="a value given to the job", max_bytes=MESSAGE_BYTES, max_depth=VALUE_DEPTH
        )
        if isinstance(given, Refusal):
            raise Refused.of(given)
        number = next(self._numbers)
        answer = self._waiting[number] = self._loop.create_future()
        self._line.send(Said(run, number, verb, Raw(given.encode())))
        return await answer

    async def _run(self, job: JobContext) -> Ended:
        try:
            result = await self._call(job)
            if isinstance(result, Failure):
                return _failed(result, is_spent=isinstance(self._tool, Failure))
            kind = next((name for name, kind in KINDS.items() if isinstance(result, kind)), None)
            value = result if kind is None else msgspec.structs.astuple(result)
            text = canonical(value, what="the result", max_bytes=MESSAGE_BYTES, max_depth=VALUE_DEPTH)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            assert isinstance(self._tool, Tool)
            too_large = self._too_large(error)
            return _failed(too_large or Failure.of(error, self._tool), is_spent=too_large is not None)
        if isinstance(text, Refusal):
            return _failed(Failure(f"the result cannot be stored: {text.message}", final=True))
        return Ended(Raw(text.encode()), kind)

    async def _call(self, job: JobContext) -> Any:
        if isinstance(self._tool, Failure):
            return self._tool
        return await handled(self._tool, job)

    def _done(self, task: asyncio.Task[Ended]) -> None:
        assert self._job is not None
        self._job.finished()
        self._job = self._task = None
        # The worker may end this process at any time from now on, and what was printed should not be lost.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        stopped = Failure("the handler was cancelled from inside")
        self._line.send(_failed(stopped) if task.cancelled() else task.result())

    def _limit(self) -> None:
        """Bounds the process's memory, with what its modules hold. Too little to begin with is said at once."""
        if self._recipe.memory_mb is not None and isinstance(self._tool, Tool):
            _limit_memory(self._recipe.memory_mb * 2**20)
            try:
                bytearray(HEADROOM_BYTES)
            except MemoryError as error:
                self._tool = self._too_large(error) or self._tool

    def _too_large(self, error: BaseException) -> Failure | None:
        """What is said of a run that came to the limit of its memory. The limit is lifted, so that it can be said."""
        is_memory = isinstance(error, MemoryError) or error.args == ("can't start new thread",)
        if self._recipe.memory_mb is None or not is_memory:
            return None
        _limit_memory(resource.RLIM_INFINITY)
        return Failure(f"the job used more than its memory_mb ({self._recipe.memory_mb})")


def _failed(failure: Failure, *, is_spent: bool = False) -> Ended:
    # A message may hold what no text can: half of a surrogate pair, say.
    fields = [
        field.encode(errors="replace").decode() if isinstance(field, str) else field
        for field in msgspec.structs.astuple(failure)
    ]
    return Ended(Raw(msgspec.json.encode(fields)), Failure.__name__, is_spent)


def _named(name: Named) -> Any:
    found: Any = importlib.import_module(name[0])
    for part in name[1].split("."):
        found = getattr(found, part)
    return found


def _limit_memory(most_bytes: int) -> None:
    """Bounds what can be allocated. The hard limit stays as it is, so that the bound can be lifted again."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [bound for bound in (most_bytes, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds, default=resource.RLIM_INFINITY), hard))


def _answer_signals(action: Any) -> None:
    for number in STOPPING:
        signal.signal(number, action)


def _be_a_fork() -> None:
    """What the handler forks is a process like any other: it can be ended, and it writes its own lines."""
    _answer_signals(signal.SIG_DFL)
    logging.root.handlers[:] = [logging.StreamHandler()]


def _die_with_parent() -> None:
    """The pipe's end tells as well, but not where a fork of the worker's keeps the other end of it open."""
    if hasattr(os, "pidfd_open"):
        parent = os.pidfd_open(os.getppid())

        def wait() -> None:
            select.select([parent], [], [])
            _end_family()

        _start_thread("ficha parent", wait)


def _start_thread(name: str, target: Callable[[], None]) -> None:
    usual = threading.stack_size(STACK_BYTES)
    threading.Thread(target=target, name=name, daemon=True).start()
    threading.stack_size(usual)


def _end_family() -> NoReturn:
    """Ends this process, with all that its handler started, at once and whatever runs in it."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


class _Forward(logging.handlers.QueueHandler):
    """Hands each line to the worker, whose own handlers write it."""

    def __init__(self, line: Line) -> None:
        super().__init__(line)  # type: ignore[arg-type]
        self._line = line

    def enqueue(self, record: logging.LogRecord) -> None:
        self._line.send(Logged(record.__dict__))


def _forward_logs(line: Line, levels: dict[str, int]) -> None:
    logging.root.handlers[:] = [_Forward(line)]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
