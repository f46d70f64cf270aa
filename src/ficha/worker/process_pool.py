"""Handlers in child processes: for code that keeps a core busy, may crash, or must be killable at any time.

A child serves one tool, one job at a time, and is kept for the next job. Only the worker talks to the database: a run's
calls come over the pipe and go through its `LeaseWriter`, so they are fenced like all others.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import multiprocessing
import os
import signal
import socket
from collections.abc import Iterator
from contextvars import Context
from multiprocessing import resource_tracker
from typing import Any, Final

from msgspec import MsgspecError, Struct

from .. import tracing
from ..core.outcomes import Refusal
from ..core.payload import read_json
from ..errors import Refused
from ..futures import settle
from ..tools import Tool
from . import file_spool
from .child_main import (
    CALLS_AT_ONCE,
    EXIT_S,
    KINDS,
    MESSAGE_BYTES,
    STOP_SIGNALS,
    VERBS,
    BeginRun,
    ChildCall,
    ChildReady,
    ChildSpec,
    LogLine,
    ParentReply,
    QualifiedName,
    RunEnded,
    StepTimed,
    StopRun,
    framed,
    main,
    to_worker,
)
from .child_start import InterpreterProcess, environment_for
from .failure import Failure, SetupFailed
from .file_spool import FileSpool
from .results import Retry
from .run import Run

IDLE_S = 60.0
"""How long an idle child is kept, unless its tool has a setup: then it is kept until the worker stops."""
TERM_S: Final = 1.0
"""How long a child has between SIGTERM and SIGKILL."""
NO_PROCESS_S: Final = 10.0
"""How long until a job is retried if no process could be started for it."""


class ProcessPool:
    """The child processes of one worker. message_bytes: the longest message that is read from one."""

    def __init__(self, worker: str, message_bytes: int = MESSAGE_BYTES) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise RuntimeError(
                "a worker was started while a child process imported the main script; start it under "
                '`if __name__ == "__main__":`'
            )
        self._worker = worker
        self._message_bytes = message_bytes
        self._children: list[ChildProcess] = []
        self._starting: list[tuple[str, str | None]] = []
        # If nobody calls close(), the children are killed when the interpreter exits.
        atexit.register(self._kill)

    async def call(self, run: Run) -> Any:
        """Returns what the handler returned, or its failure. A cancelled call ends once the process has exited. Raises
        SetupFailed if the tool could not be set up in a new process."""
        tool = run.tool
        try:
            child = self._idle_child(tool) or await self._start(tool)
        except OSError as error:
            return Retry(NO_PROCESS_S, f"the worker could not start a process: {error}")
        try:
            await child.set_up()
            result = await child.run(run)
        except SetupFailed:
            child.close_pipe()
            raise
        except BaseException:
            await child.stop(tool.stop_grace)
            raise
        if child.ran == tool.recycle_after:
            child.close_pipe()
        else:
            child.idle(IDLE_S)
        return result

    async def set_up(self, tool: Tool) -> None:
        """Starts a child for the tool's first job, and sets it up. Raises SetupFailed if that fails."""
        try:
            child = await self._start(tool)
        except OSError as error:
            raise SetupFailed.of(error) from error
        try:
            await child.set_up()
        except BaseException:
            child.close_pipe()
            raise
        child.idle(IDLE_S)

    async def close(self) -> None:
        """Ends all children, even those in the middle of a run."""
        for child in self._children:
            child.close_pipe()
        if self._children:
            await asyncio.wait([child.exited for child in self._children])
        atexit.unregister(self._kill)

    def _idle_child(self, tool: Tool) -> ChildProcess | None:
        """The oldest idle child, so that surplus children stay idle and end."""
        return next((child for child in self._children if child.tool == tool.name and child.is_idle), None)

    async def _start(self, tool: Tool) -> ChildProcess:
        device = self._device(tool)
        self._starting.append((tool.name, device))
        try:
            child = await ChildProcess.start(tool, device, f"{self._worker} {tool.name}", self._message_bytes)
        finally:
            self._starting.remove((tool.name, device))
        self._children.append(child)
        child.exited.add_done_callback(lambda _: self._children.remove(child))
        return child

    def _device(self, tool: Tool) -> str | None:
        children = [*self._starting, *((child.tool, child.device) for child in self._children)]
        return tool.device_for(device for name, device in children if name == tool.name)

    def _kill(self) -> None:
        for child in self._children:
            child.signal(signal.SIGKILL)


class ChildProcess:
    """One child process, from its start until it and all it started have ended."""

    def __init__(
        self,
        tool: Tool,
        device: str | None,
        message_bytes: int,
        process: multiprocessing.process.BaseProcess,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        assert process.pid is not None
        self.tool = tool.name
        self.device = device
        self._has_setup = tool.setup is not None
        self._message_bytes = message_bytes
        self._violation: str | None = None
        self._process = process
        self._pid = process.pid
        self._reader = reader
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._is_ready = False
        self._set_up: asyncio.Future[SetupFailed | None] = self._loop.create_future()
        self._run: Run | None = None
        self._spool: FileSpool | None = None
        self._outcome: asyncio.Future[Any] = self._loop.create_future()
        self._answering: set[asyncio.Task[None]] = set()
        self._is_idle = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._exit_code: asyncio.Future[int] = self._loop.create_future()
        self._watch_exit()
        self.ran = 0
        self.exited = asyncio.create_task(self._supervise(), name=f"ficha child {self._pid}", context=Context())

    @classmethod
    async def start(cls, tool: Tool, device: str | None, name: str, message_bytes: int) -> ChildProcess:
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_connection(sock=ours)
            # A fresh interpreter: a forked copy of the worker's threads, event loop and connections would be broken.
            environment = environment_for(tool.environment, os.environ)
            spec = _spec(tool, device, message_bytes)
            process = InterpreterProcess(environment, target=main, args=(theirs, spec), name=name)
            try:
                with _stop_signals_blocked():
                    process.start()
                return cls(tool, device, message_bytes, process, reader, writer)
            except BaseException:
                writer.close()
                raise

    @property
    def is_idle(self) -> bool:
        return self._is_idle

    async def set_up(self) -> None:
        """Returns when the tool is set up in the child; raises SetupFailed if that failed."""
        if self._has_setup and (failed := await asyncio.shield(self._set_up)) is not None:
            raise failed

    async def run(self, run: Run) -> Any:
        """Returns what the handler returned, or its failure."""
        self._end_idleness()
        self.ran += 1
        self._run, self._outcome = run, self._loop.create_future()
        self._send(BeginRun(self.ran, run.job.facts))
        if self.exited.done():
            return self._exit_failure()
        return await asyncio.shield(self._outcome)

    async def stop(self, grace_s: float) -> None:
        """Stops the run and ends the process. A caller cancelled while it waits skips to the next, harsher signal."""
        if self._is_ready:
            self._send(StopRun())
            await _wait_for([self._outcome, self.exited], grace_s)
            self.signal(signal.SIGTERM)
            await _wait_for([self.exited], TERM_S)
        self.signal(signal.SIGKILL)
        await asyncio.wait([self.exited])

    def idle(self, most_s: float) -> None:
        """Marks the child as idle, and ends it if it stays so for `most_s`, unless its tool has a setup."""
        if not self._writer.is_closing() and not self._exit_code.done():
            self._is_idle = True
            if not self._has_setup:
                self._idle_timer = self._loop.call_later(most_s, self.close_pipe)

    def _end_idleness(self) -> None:
        self._is_idle = False
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def close_pipe(self) -> None:
        """Closes the pipe, at which the child exits, even in the middle of a run."""
        self._end_idleness()
        self._writer.close()

    def signal(self, number: signal.Signals) -> None:
        """Signals the child and all that its handler started. Until its exit is known, its process id is not reused."""
        if not self._exit_code.done():
            # A process that has just started has no process group yet.
            for send in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    send(self._pid, number)

    async def _supervise(self) -> None:
        listening = asyncio.create_task(self._listen())
        both: list[asyncio.Future[Any]] = [listening, self._exit_code]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            # Process and pipe end together, unless the child does not read, or its handler closed or shared the pipe.
            self._end_idleness()
            await asyncio.wait(both, timeout=1.5 * EXIT_S)
        finally:
            listening.cancel()
            self.close_pipe()
            self.signal(signal.SIGKILL)
        await asyncio.wait(both)
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        self._close_spool()
        settle(self._set_up, self._exit_before_ready())
        settle(self._outcome, self._exit_failure())

    def _watch_exit(self) -> None:
        # The sentinel, where there is no pidfd, is a pipe that the child keeps open; a fork of it would do so too.
        has_pidfd = hasattr(os, "pidfd_open")
        watched = os.pidfd_open(self._pid) if has_pidfd else os.dup(self._process.sentinel)

        def exited() -> None:
            self._loop.remove_reader(watched)
            os.close(watched)
            # Until the process is reaped, its id still names the group of all that it started.
            self.signal(signal.SIGKILL)
            self._process.join()
            code = self._process.exitcode
            with contextlib.suppress(ValueError):  # Somebody else reaped it, so `close` believes that it still runs.
                self._process.close()
            self._exit_code.set_result(-signal.SIGKILL if code is None else code)

        self._loop.add_reader(watched, exited)

    def _exit_before_ready(self) -> SetupFailed:
        code = self._exit_code.result()
        how = f"was ended by {_signal(-code)}" if code < 0 else f"exited with {code}"
        return SetupFailed(f"its process {how}")

    def _exit_failure(self) -> Failure:
        code = self._exit_code.result()
        if self._violation is not None:
            return Failure(f"the job's process was killed: {self._violation}", final=True)
        if code < 0:
            return Failure(f"the job's process was ended by {_signal(-code)}", lost=True)
        if not self._is_ready:
            return Failure(f"the job's process exited with {code} before it could begin; the worker's stderr says why")
        return Failure(f"the job's process exited with {code} without a result", lost=True)

    async def _listen(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while self._violation is None:
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                if size > self._message_bytes:
                    self._violation = f"it sent a message of {size} bytes; at most {self._message_bytes} are read"
                    break
                try:
                    self._receive(to_worker.decode(await self._reader.readexactly(size)))
                except (MsgspecError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
                    self._violation = "it sent what is no message of a handler's process"
                if len(self._answering) >= CALLS_AT_ONCE:
                    # Its further messages wait in the pipe; once the pipe is full, the process waits too.
                    await asyncio.wait(self._answering, return_when=asyncio.FIRST_COMPLETED)
        if self._violation is not None:
            self.signal(signal.SIGKILL)

    def _receive(self, message: ChildReady | ChildCall | RunEnded | LogLine | StepTimed) -> None:
        match message:
            case ChildReady(failed):
                self._is_ready = True
                settle(self._set_up, None if failed is None else SetupFailed(*failed))
            case ChildCall():
                # A thread that outlived its run must not write for the next one.
                run = self._run if message.run == self.ran else None
                task = asyncio.create_task(self._answer_call(message, run))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case RunEnded(text, kind, is_unusable):
                value = read_json(text)
                self._run = None
                self._close_spool()
                if is_unusable:
                    self.close_pipe()
                settle(self._outcome, value if kind is None else KINDS[kind](*value))
            case StepTimed(run, name, start_ns, end_ns, error):
                if self._run is not None and run == self.ran and tracing.active is not None:
                    parent = self._run.job.facts.trace_context
                    attributes = {"ficha.step": name}
                    tracing.active.add(f"step {name}", parent, start_ns, end_ns, attributes=attributes, error=error)
            case LogLine(fields):
                record = logging.makeLogRecord(read_json(fields))
                logger = logging.getLogger(record.name)
                if logger.isEnabledFor(record.levelno):
                    logger.handle(record)

    async def _answer_call(self, call: ChildCall, run: Run | None) -> None:
        """Answers a call of a run through the run's `LeaseWriter`."""
        try:
            args, options = read_json(call.given)
            if call.verb not in VERBS | file_spool.VERBS:
                raise Refused.of(Refusal("FORBIDDEN", "a handler's process may not call this; nothing was changed."))
            if run is None:
                raise Refused.of(Refusal("LEASE_LOST", "the run is over; nothing was changed."))
            if call.verb in file_spool.VERBS:
                answer = ParentReply(call.number, await self._spool_of(run).call(call.verb, *args))
            else:
                answer = ParentReply(call.number, await run.job._lease_call(call.verb, *args, **options))
        except Refused as refused:
            refusal = Refusal(refused.code, refused.message, refused.retry_after_s, refused.details)
            answer = ParentReply(call.number, refusal=refusal)
        except Exception as error:
            answer = ParentReply(call.number, error=str(error) or type(error).__name__)
        self._send(answer)
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def _spool_of(self, run: Run) -> FileSpool:
        if self._spool is None:
            self._spool = FileSpool(run.job._lease_call)
        return self._spool

    def _close_spool(self) -> None:
        if self._spool is not None:
            self._loop.run_in_executor(None, self._spool.close)
            self._spool = None

    def _send(self, message: Struct) -> None:
        if not self._writer.is_closing():
            self._writer.write(framed(message))


def _spec(tool: Tool, device: str | None, message_bytes: int) -> ChildSpec:
    known = logging.root.manager.loggerDict.items()
    levels = {name: logger.level for name, logger in known if isinstance(logger, logging.Logger) and logger.level}
    handler, *fatal = map(_name, (tool.handler, *tool.fatal))
    setup = None if tool.setup is None else _name(tool.setup)
    return ChildSpec(
        tool.name,
        handler,
        setup,
        tool.setup_takes_device,
        device,
        tuple(fatal),
        tool.memory_mb,
        {"": logging.root.level} | levels,
        message_bytes,
        tracing.active is not None,
    )


def _signal(number: int) -> str:
    known = {each.value: f" ({each.name})" for each in signal.Signals}
    return f"signal {number}{known.get(number, '')}"


def _name(function: Any) -> QualifiedName:
    return function.__module__, function.__qualname__


@contextlib.contextmanager
def _stop_signals_blocked() -> Iterator[None]:
    """Blocks the stop signals in what is started meanwhile, until the child has installed its handlers."""
    resource_tracker.ensure_running()  # Started now, since its own start would unblock the same signals.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def _wait_for(any_of: list[asyncio.Future[Any]], timeout_s: float) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait(any_of, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
