"""Handlers in child processes: for code that keeps a core busy, may crash, or must be ended whatever it does.

A child serves one tool, one job at a time, and is kept for the next. Only the worker speaks to the database: what a run
says comes over the pipe and goes through the run's own desk, so that it is fenced like everything else.
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
from multiprocessing import resource_tracker
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..core.outcomes import Refusal
from ..errors import Refused
from ..tools import Tool
from .child_main import (
    KINDS,
    STOPPING,
    TIDY_S,
    Begin,
    ChildReady,
    Ended,
    Logged,
    Named,
    ParentReply,
    Recipe,
    Said,
    Stop,
    framed,
    main,
    to_worker,
)
from .failure import Failure
from .results import Retry
from .run import Run

IDLE_S = 60.0
"""How long a child is kept that has nothing to do."""
TERM_S: Final = 1.0
"""What a child gets between the signal that ends a process and the one that it cannot refuse."""
NO_PROCESS_S: Final = 10.0
"""A job goes back for so long if the machine has no room for one more process."""

# Not by forking: the worker has threads, a loop and connections, and a copy of them would be broken.
_SPAWN: Final = multiprocessing.get_context("spawn")


class Processes:
    """The child processes of one worker."""

    def __init__(self, worker: str) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise RuntimeError(
                "a worker was started while a child process imported the main script; start it under "
                '`if __name__ == "__main__":`'
            )
        self._worker = worker
        self._children: list[Child] = []
        # Should nobody close this, no child is left, nor waited for.
        atexit.register(self._kill)

    async def call(self, run: Run) -> Any:
        """What the handler returned, or how it failed. When cancelled, once its process has ended."""
        tool = run.tool
        try:
            child = self._free(tool) or await self._start(tool)
        except OSError as error:
            return Retry(NO_PROCESS_S, f"the worker could not start a process: {error}")
        try:
            result = await child.run(run)
        except BaseException:
            await child.stop(tool.stop_grace)
            raise
        if child.ran == tool.recycle_after:
            child.hang_up()
        else:
            child.rest(IDLE_S)
        return result

    async def close(self) -> None:
        """Ends all children. One that still runs a job ends in the middle of it."""
        for child in self._children:
            child.hang_up()
        if self._children:
            await asyncio.wait([child.life for child in self._children])
        atexit.unregister(self._kill)

    def _free(self, tool: Tool) -> Child | None:
        """The oldest that has nothing to do, so that those which are not needed have nothing to do for long."""
        return next((child for child in self._children if child.tool == tool.name and child.is_free), None)

    async def _start(self, tool: Tool) -> Child:
        child = await Child.start(tool, f"{self._worker} {tool.name}")
        self._children.append(child)
        child.life.add_done_callback(lambda _: self._children.remove(child))
        return child

    def _kill(self) -> None:
        for child in self._children:
            child.signal(signal.SIGKILL)


class Child:
    """One child process, from its start until nothing is left of it."""

    def __init__(
        self,
        tool: str,
        process: multiprocessing.process.BaseProcess,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        assert process.pid is not None
        self.tool = tool
        self._process = process
        self._pid = process.pid
        self._reader = reader
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._is_ready = False
        self._run: Run | None = None
        self._outcome: asyncio.Future[Any] = self._loop.create_future()
        self._serving: set[asyncio.Task[None]] = set()
        self._rest: asyncio.TimerHandle | None = None
        self._exit_code: asyncio.Future[int] = self._loop.create_future()
        self._watch_exit()
        self.ran = 0
        self.life = asyncio.create_task(self._live(), name=f"ficha child {self._pid}")

    @classmethod
    async def start(cls, tool: Tool, name: str) -> Child:
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_connection(sock=ours)
            process = _SPAWN.Process(target=main, args=(theirs, _recipe(tool)), name=name)
            try:
                with _signals_wait():
                    process.start()
                return cls(tool.name, process, reader, writer)
            except BaseException:
                writer.close()
                raise

    @property
    def is_free(self) -> bool:
        return self._rest is not None

    async def run(self, run: Run) -> Any:
        """What the handler returned, or how it failed."""
        self._wake()
        self.ran += 1
        self._run, self._outcome = run, self._loop.create_future()
        self._send(Begin(self.ran, run.job.facts))
        if self.life.done():
            return self._death()
        return await asyncio.shield(self._outcome)

    async def stop(self, grace_s: float) -> None:
        """Ends a run in the middle, and the process with it. Whoever is cancelled while waiting hurries it on."""
        if self._is_ready:
            self._send(Stop())
            await _wait_for([self._outcome, self.life], grace_s)
            self.signal(signal.SIGTERM)
            await _wait_for([self.life], TERM_S)
        self.signal(signal.SIGKILL)
        await asyncio.wait([self.life])

    def rest(self, most_s: float) -> None:
        """It has nothing to do, and is let go if that lasts."""
        if not self._writer.is_closing() and not self._exit_code.done():
            self._rest = self._loop.call_later(most_s, self.hang_up)

    def _wake(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def hang_up(self) -> None:
        """The child ends when it hears this: by itself if it has nothing to do, else in the middle of its run."""
        self._wake()
        self._writer.close()

    def signal(self, number: signal.Signals) -> None:
        """To the child and to whatever its handler started. It is still there, or its process id is not yet free."""
        if not self._exit_code.done():
            # A process that has just begun has no group of its own yet.
            for send in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    send(self._pid, number)

    async def _live(self) -> None:
        listening = asyncio.create_task(self._listen())
        both: list[asyncio.Future[Any]] = [listening, self._exit_code]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            # Its end and the pipe's go together, unless it does not listen, or the handler took or gave the pipe away.
            self._wake()
            await asyncio.wait(both, timeout=1.5 * TIDY_S)
        finally:
            listening.cancel()
            self.hang_up()
            self.signal(signal.SIGKILL)
        await asyncio.wait(both)
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        if not self._outcome.done():
            self._outcome.set_result(self._death())

    def _watch_exit(self) -> None:
        # Without such a descriptor, a pipe that the child holds open; a fork of the child's would hold it open as well.
        has_pidfd = hasattr(os, "pidfd_open")
        watched = os.pidfd_open(self._pid) if has_pidfd else os.dup(self._process.sentinel)

        def exited() -> None:
            self._loop.remove_reader(watched)
            os.close(watched)
            # Before its process id is given back, what it left behind can still be told by it.
            self.signal(signal.SIGKILL)
            self._process.join()
            code = self._process.exitcode
            with contextlib.suppress(ValueError):  # Somebody else has waited for it, and it is not known to have ended.
                self._process.close()
            self._exit_code.set_result(-signal.SIGKILL if code is None else code)

        self._loop.add_reader(watched, exited)

    def _death(self) -> Failure:
        code = self._exit_code.result()
        if code < 0:
            known = {number.value: f" ({number.name})" for number in signal.Signals}
            return Failure(f"the job's process was ended by signal {-code}{known.get(-code, '')}", lost=True)
        if not self._is_ready:
            return Failure(f"the job's process exited with {code} before it could begin; the worker's stderr says why")
        return Failure(f"the job's process exited with {code} without an answer", lost=True)

    async def _listen(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                self._hear(to_worker.decode(await self._reader.readexactly(size)))

    def _hear(self, message: ChildReady | Said | Ended | Logged) -> None:
        match message:
            case ChildReady():
                self._is_ready = True
            case Said():
                # A thread that outlived its run cannot speak for the next one.
                run = self._run if message.run == self.ran else None
                task = asyncio.create_task(self._serve(message, run))
                self._serving.add(task)
                task.add_done_callback(self._serving.discard)
            case Ended(text, kind, is_spent):
                value = msgspec.json.decode(text)
                self._run = None
                if is_spent:
                    self.hang_up()
                if not self._outcome.done():
                    self._outcome.set_result(value if kind is None else KINDS[kind](*value))
            case Logged(fields):
                record = logging.makeLogRecord(fields)
                logger = logging.getLogger(record.name)
                if logger.isEnabledFor(record.levelno):
                    logger.handle(record)

    async def _serve(self, said: Said, run: Run | None) -> None:
        """Puts what a run says before its desk."""
        args, options = msgspec.json.decode(said.given)
        try:
            if run is None:
                raise Refused.of(Refusal("LEASE_LOST", "the run is over; nothing was changed."))
            answer = ParentReply(said.number, await run.job._say(said.verb, *args, **options))
        except Refused as refused:
            refusal = Refusal(refused.code, refused.message, refused.retry_after_s, refused.details)
            answer = ParentReply(said.number, refusal=refusal)
        except Exception as error:
            answer = ParentReply(said.number, error=str(error) or type(error).__name__)
        self._send(answer)

    def _send(self, message: Struct) -> None:
        if not self._writer.is_closing():
            self._writer.write(framed(message))


def _recipe(tool: Tool) -> Recipe:
    known = logging.root.manager.loggerDict.items()
    levels = {name: logger.level for name, logger in known if isinstance(logger, logging.Logger) and logger.level}
    handler, *fatal = map(_name, (tool.handler, *tool.fatal))
    return Recipe(tool.name, handler, tuple(fatal), tool.memory_mb, {"": logging.root.level} | levels)


def _name(function: Any) -> Named:
    return function.__module__, function.__qualname__


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """What is started meanwhile holds these signals back until it has said what it does about them."""
    resource_tracker.ensure_running()  # It lets the same signals through when it starts its own process.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def _wait_for(any_of: list[asyncio.Future[Any]], timeout_s: float) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait(any_of, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
