"""A child process: imports its tool's handler, runs it for one job after another, and asks the worker for all else.

Messages over the pipe are JSON, each after its length in four bytes. The main thread runs the event loop, which a
handler's coroutine may block; a second thread reads the pipe, so the end of the worker is noticed even then.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import logging
import logging.handlers
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NoReturn

import msgspec
from msgspec import Raw, Struct

from .. import job_log, tracing
from ..core.outcomes import Refusal
from ..errors import Refused
from ..json_values import stored_json
from ..store.base import StoreError
from ..tool_calls import handler_of
from ..tools import Tool
from .context import Facts, JobContext
from .failure import SHOWN_CHARS, Failure, SetupFailed
from .file_spool import open_fetched, save_placed
from .results import ENDINGS
from .tool_runner import ToolRunner

MESSAGE_BYTES: Final = 64 * 2**20
"""The longest message that a worker reads, unless its application sets another limit."""
ENVELOPE_BYTES: Final = 1_024
"""The most bytes of a message besides the value in it."""
VERBS: Final = frozenset({"checkpoint", "files_of", "note", "report", "save_step", "steps", "url_of"})
"""The methods of `LeaseOperations` that a handler's process may call: those that `JobContext` calls."""
CALLS_AT_ONCE: Final = 64
"""How many calls of one process are answered at once; further ones wait."""
VALUE_DEPTH: Final = 400
"""The deepest nesting that is sent; the worker's limits are far below."""
EXIT_S: Final = 1.0
"""How long a child that is no longer needed may take to exit by itself."""
STACK_BYTES: Final = 256 * 1024
"""The stack of this module's threads: the usual 8 MiB would count against the tool's memory."""

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask a worker to stop; they may be sent to all of its processes at once."""

HEADROOM_BYTES: Final = 10 * 2**20
"""The least memory that a run needs: the stack of a handler's thread, and a little more."""

MISSING_VARIABLE: Final = (
    "; if that is an environment variable, name it in the tool's `environment`, since a child process gets few of them"
)
QualifiedName = tuple[str, str]
"""The module and the qualified name of a function or class."""


class ChildSpec(Struct, frozen=True):
    """The tool that a child serves, and its settings."""

    tool: str
    handler: QualifiedName
    setup: QualifiedName | None
    setup_takes_device: bool
    device: str | None
    fatal: tuple[QualifiedName, ...]
    memory_mb: int | None
    levels: dict[str, int]
    """The worker's log levels by logger; "" is the root."""
    message_bytes: int
    is_traced: bool = False
    """Whether the child reports to the worker how long steps took."""


# Messages from the worker


class BeginRun(Struct, tag=True):
    """Run the handler for this job. The number tells calls of this run from those of earlier ones."""

    run: int
    facts: Facts


class StopRun(Struct, tag=True):
    """Stop the run."""


class ParentReply(Struct, tag=True):
    """The answer to a `ChildCall`."""

    number: int
    value: Any = None
    refusal: Refusal | None = None
    error: str | None = None


# Messages from the child


class ChildReady(Struct, tag=True):
    """The child takes jobs; if importing the handler failed, its runs fail. `setup_failed`: the error and traceback if
    the tool could not be set up; then the child takes no jobs."""

    setup_failed: tuple[str, str | None] | None = None


class ChildCall(Struct, tag=True):
    """A call of the run's `LeaseWriter`: a method's name, and its arguments as a list and a mapping."""

    run: int
    number: int
    verb: str
    given: Raw


class RunEnded(Struct, tag=True):
    """What the handler returned or raised: a value of the class named `kind`, else plain JSON."""

    value: Raw
    kind: str | None = None
    is_unusable: bool = False
    """The child must not be used again."""


class LogLine(Struct, tag=True):
    """A log line, with its fields as an object."""

    fields: Raw


class StepTimed(Struct, tag=True):
    """When a step of the run began and ended, in nanoseconds since 1970, and the class of its error if it failed."""

    run: int
    name: str
    start_ns: int
    end_ns: int
    error: str | None = None


KINDS: Final = {kind.__name__: kind for kind in (Failure, *ENDINGS)}
to_child: Final = msgspec.json.Decoder(BeginRun | StopRun | ParentReply)
to_worker: Final = msgspec.json.Decoder(ChildReady | ChildCall | RunEnded | LogLine | StepTimed)
_encoder: Final = msgspec.json.Encoder(enc_hook=repr)


def log_line(fields: dict[str, Any]) -> LogLine:
    return LogLine(Raw(_encoder.encode(fields)))


def framed(message: Struct) -> bytes:
    text = _encoder.encode(message)
    return len(text).to_bytes(4, "big") + text


def main(connection: socket.socket, spec: ChildSpec) -> None:
    """The entry point of a child process."""
    # In a process group of its own, what the handler starts can be killed with it, and Ctrl-C goes to the worker only.
    os.setsid()
    # The worker decides what stops. An empty handler, unlike SIG_IGN, is not inherited by what the handler starts.
    _handle_stop_signals(lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    os.register_at_fork(after_in_child=_after_fork)
    connection.set_inheritable(False)
    pipe = WorkerPipe(connection, spec.message_bytes)
    _die_with_parent()
    _forward_logs(pipe, spec.levels)
    # Before the loop runs: the handler's module may run a loop itself while it is imported.
    runner = ChildRunner(pipe, spec)
    asyncio.run(runner.serve())


class WorkerPipe:
    """The child's end of the pipe. Any thread may send."""

    def __init__(self, connection: socket.socket, message_bytes: int) -> None:
        self._connection = connection
        self.value_bytes = max(0, message_bytes - ENVELOPE_BYTES)
        """The longest text that fits into a message."""
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def send(self, message: Struct) -> None:
        if os.getpid() != self._pid:
            # The handler forked, and the fork returned to here: it must not report for the job.
            os._exit(0)
        frame = framed(message)
        with self._lock:
            self._connection.sendall(frame)

    def read(self, receive: Callable[[BeginRun | StopRun | ParentReply], Any]) -> None:
        """Passes on each message until the worker closes the pipe."""
        with self._connection.makefile("rb") as file:
            while len(head := file.read(4)) == 4:
                receive(to_child.decode(file.read(int.from_bytes(head, "big"))))


class ChildRunner:
    """Runs the handler, one job at a time."""

    def __init__(self, pipe: WorkerPipe, spec: ChildSpec) -> None:
        self._pipe = pipe
        self._spec = spec
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._job: JobContext | None = None
        if spec.is_traced:
            tracing.steps = self
        self._task: asyncio.Task[RunEnded] | None = None
        self._tool = self._find_handler()
        self._runner = ToolRunner(self._tool) if isinstance(self._tool, Tool) else None

    async def serve(self) -> None:
        """Runs jobs until the worker closes the pipe."""
        self._loop = asyncio.get_running_loop()
        self._closed = asyncio.Event()
        _start_thread("ficha pipe", self._listen)
        self._apply_memory_limit()
        self._pipe.send(await self._set_up())
        await self._closed.wait()

    def _find_handler(self) -> Tool | Failure:
        # Imported here, because the worker imports this module too, and not every worker declares a tool.
        from ..payload_schema import payload_of

        spec = self._spec
        try:
            handler = handler_of(_named(spec.handler))
            setup = None if spec.setup is None else _named(spec.setup)
            payload = payload_of(spec.tool, handler)
            fatal = tuple(map(_named, spec.fatal))
        except BaseException as error:
            found = ".".join(spec.handler)
            said = f"{type(error).__name__}: {error}"[:SHOWN_CHARS]
            hint = MISSING_VARIABLE if isinstance(error, KeyError) else ""
            return Failure(f"the job's process could not import {found}: {said}{hint}")
        return Tool(
            name=spec.tool,
            handler=handler,
            payload=payload,
            setup=setup,
            setup_takes_device=spec.setup_takes_device,
            devices=() if spec.device is None else (spec.device,),
            max_calls=1,
            fatal=fatal,
        )

    async def _set_up(self) -> ChildReady:
        try:
            if self._runner is not None:
                await self._runner.set_up()
        except Exception as error:
            failed = error if isinstance(error, SetupFailed) else SetupFailed.of(error)
            return ChildReady((_encodable(failed.error), _encodable(failed.traceback)))
        return ChildReady()

    def _listen(self) -> None:
        try:
            self._pipe.read(lambda message: self._loop.call_soon_threadsafe(self._receive, message))
        finally:
            # The worker closed the pipe or died. Nobody waits for the result of a run under way.
            if self._task is None:
                self._loop.call_soon_threadsafe(self._closed.set)
                time.sleep(EXIT_S)
            _kill_group()

    def _receive(self, message: BeginRun | StopRun | ParentReply) -> None:
        match message:
            case BeginRun(run, facts):
                self._number = run
                self._job = JobContext(facts, partial(self._call_worker, run))
                self._task = self._loop.create_task(self._run(self._job))
                self._task.add_done_callback(self._done)
            case StopRun():
                # From now on the worker may terminate this process, and the default action does so at once.
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

    async def _call_worker(self, run: int, verb: str, *args: Any, **options: Any) -> Any:
        # Bytes do not go through the pipe.
        if verb == "open_file":
            return await open_fetched(partial(self._call_worker, run), *args)
        if verb == "save_file":
            return await save_placed(partial(self._call_worker, run), *args)
        given = stored_json(
            [args, options], what="a value given to the job", max_bytes=self._pipe.value_bytes, max_depth=VALUE_DEPTH
        )
        if isinstance(given, Refusal):
            raise Refused.of(given)
        number = next(self._numbers)
        answer = self._waiting[number] = self._loop.create_future()
        self._pipe.send(ChildCall(run, number, verb, Raw(given.encode())))
        return await answer

    @contextlib.contextmanager
    def step(self, run: str, name: str) -> Iterator[None]:
        """Tells the worker how long a step took (`tracing.StepSpans`)."""
        number, start_ns, error = self._number, time.time_ns(), None
        try:
            yield
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            self._pipe.send(StepTimed(number, name, start_ns, time.time_ns(), error))

    async def _run(self, job: JobContext) -> RunEnded:
        job_log.begin(job.log_fields)
        try:
            result = await self._call(job)
            if isinstance(result, Failure):
                return _failed(result, is_unusable=isinstance(self._tool, Failure))
            kind = next((name for name, kind in KINDS.items() if isinstance(result, kind)), None)
            value = result if kind is None else msgspec.structs.astuple(result)
            text = stored_json(value, what="the result", max_bytes=self._pipe.value_bytes, max_depth=VALUE_DEPTH)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            assert isinstance(self._tool, Tool)
            memory_failure = self._memory_failure(error)
            return _failed(memory_failure or Failure.of(error, self._tool), is_unusable=memory_failure is not None)
        if isinstance(text, Refusal):
            return _failed(Failure(f"the result cannot be stored: {text.message}", final=True))
        return RunEnded(Raw(text.encode()), kind)

    async def _call(self, job: JobContext) -> Any:
        if self._runner is None or isinstance(self._tool, Failure):
            return self._tool
        return await self._runner.call(job)

    def _done(self, task: asyncio.Task[RunEnded]) -> None:
        assert self._job is not None
        self._job.finished()
        self._job = self._task = None
        # From now on the worker may end this process at any time; what was printed should not be lost.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        stopped = Failure("the handler was cancelled from inside")
        self._pipe.send(_failed(stopped) if task.cancelled() else task.result())

    def _apply_memory_limit(self) -> None:
        """Limits the process's memory, its modules included. A limit too low for any run fails the first one."""
        if self._spec.memory_mb is not None and isinstance(self._tool, Tool):
            _limit_memory(self._spec.memory_mb * 2**20)
            try:
                bytearray(HEADROOM_BYTES)
            except MemoryError as error:
                self._tool = self._memory_failure(error) or self._tool

    def _memory_failure(self, error: BaseException) -> Failure | None:
        """The failure of a run that reached its memory limit. Lifts the limit, so that the failure can be sent."""
        is_memory = isinstance(error, MemoryError) or error.args == ("can't start new thread",)
        if self._spec.memory_mb is None or not is_memory:
            return None
        _limit_memory(None)
        return Failure(f"the job used more than its memory_mb ({self._spec.memory_mb})", lost=True)


def _failed(failure: Failure, *, is_unusable: bool = False) -> RunEnded:
    fields = [_encodable(field) for field in msgspec.structs.astuple(failure)]
    return RunEnded(Raw(msgspec.json.encode(fields)), Failure.__name__, is_unusable)


def _encodable(field: Any) -> Any:
    """The field without what cannot be encoded, such as a lone surrogate in a message."""
    return field.encode(errors="replace").decode() if isinstance(field, str) else field


def _named(name: QualifiedName) -> Any:
    found: Any = importlib.import_module(name[0])
    for part in name[1].split("."):
        found = getattr(found, part)
    return found


def _limit_memory(most_bytes: int | None) -> None:
    """Limits what can be allocated; None for no limit. The hard limit stays, so that this one can be lifted again."""
    # Imported here, because Windows has no such module.
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [bound for bound in (most_bytes, hard) if bound not in (None, resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds, default=resource.RLIM_INFINITY), hard))


def _handle_stop_signals(action: Any) -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, action)


def _after_fork() -> None:
    """Makes a fork of the handler an ordinary process: signals end it, and it writes its own log lines."""
    _handle_stop_signals(signal.SIG_DFL)
    logging.root.handlers[:] = [logging.StreamHandler()]


def _die_with_parent() -> None:
    """Kills this process when the worker dies. The pipe shows that too, unless a fork of the worker keeps it open."""
    if hasattr(os, "pidfd_open"):
        parent = os.pidfd_open(os.getppid())

        def wait() -> None:
            select.select([parent], [], [])
            _kill_group()

        _start_thread("ficha parent", wait)


def _start_thread(name: str, target: Callable[[], None]) -> None:
    usual = threading.stack_size(STACK_BYTES)
    threading.Thread(target=target, name=name, daemon=True).start()
    threading.stack_size(usual)


def _kill_group() -> NoReturn:
    """Kills this process and all that its handler started, at once."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


class _ForwardHandler(logging.handlers.QueueHandler):
    """Sends each log line to the worker, whose log handlers write it."""

    def __init__(self, pipe: WorkerPipe) -> None:
        super().__init__(pipe)  # type: ignore[arg-type]
        self._pipe = pipe
        self.addFilter(job_log.JobLogFilter())

    def enqueue(self, record: logging.LogRecord) -> None:
        line = log_line(record.__dict__)
        if (size := len(framed(line))) > self._pipe.value_bytes:
            names = ("name", "levelno", "levelname", "created", "msecs", *job_log.FIELDS, "trace_id", "span_id")
            kept = {name: record.__dict__[name] for name in names if name in record.__dict__}
            line = log_line({**kept, "msg": f"a log line of {size} bytes is too long to be passed on", "args": None})
        self._pipe.send(line)


def _forward_logs(pipe: WorkerPipe, levels: dict[str, int]) -> None:
    logging.root.handlers[:] = [_ForwardHandler(pipe)]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
