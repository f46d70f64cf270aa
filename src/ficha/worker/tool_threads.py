"""The threads of one tool whose handler is a plain function: each is kept for the next call.

Libraries keep handles, caches and tuning per thread (PyTorch does so for CUDA and cuDNN), and a new thread has to make
them again. A thread takes the next waiting call itself, without a turn of the event loop in between.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ..futures import wake
from ..tools import Tool
from .failure import SetupFailed

IDLE_S: Final = 60.0
"""How long an idle thread is kept, unless its tool has a setup: then it is kept until the worker stops."""


ThreadFunction = Callable[[Any, str | None], Any]
"""A function that runs on a thread; its arguments are what the tool's setup returned there, and the thread's device."""


class ThreadCall:
    """One call of a function, from the event loop to a thread and back."""

    __slots__ = ("_context", "_error", "_function", "_loop", "_result", "ended", "is_given_up", "thread")

    def __init__(self, function: ThreadFunction) -> None:
        self._function = function
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self._result: Any = None
        self._error: BaseException | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.is_given_up = False
        self.thread: KeptThread | None = None
        """The thread that runs the call; None while the call waits for one."""

    def perform(self, thread: KeptThread) -> None:
        try:
            setup = thread.set_up()
            if not self.is_given_up:
                self._result = self._context.run(self._function, setup, thread.device)
        except BaseException as error:
            self._error = error

    def report(self) -> None:
        try:
            self._loop.call_soon_threadsafe(wake, self.ended)
        except RuntimeError:
            # The loop is closed: the worker has given this call up.
            return

    def outcome(self) -> Any:
        """Returns or raises what the function did."""
        if self._error is not None:
            raise self._error
        return self._result


class KeptThread:
    """A thread, and how an idle one gets its next call."""

    __slots__ = ("_setup", "_tool", "device", "inbox", "is_left_behind", "is_set_up")

    def __init__(self, tool: Tool, device: str | None) -> None:
        self._tool = tool
        self.device = device
        self._setup: Any = None
        self.is_set_up = tool.setup is None
        self.inbox: queue.SimpleQueue[ThreadCall | None] = queue.SimpleQueue()
        self.is_left_behind = False

    def set_up(self) -> Any:
        """What the tool's setup returned on this thread; calls it if it has not succeeded yet."""
        if not self.is_set_up:
            try:
                self._setup = self._tool.call_setup(self.device)
            except BaseException as error:
                raise SetupFailed.of(error) from error
            self.is_set_up = True
        return self._setup


class ToolThreads:
    """Runs the calls of one tool, at most `max_calls` at a time; further calls wait in order.

    `give_up` abandons a thread that hangs: another takes its place, and it ends when its function does.
    """

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: deque[ThreadCall] = deque()
        self._idle: list[KeptThread] = []
        self._threads: set[KeptThread] = set()
        self._is_closed = False
        self._calls: dict[asyncio.Task[Any] | None, ThreadCall] = {}

    async def call(self, function: ThreadFunction) -> Any:
        """Returns or raises what the function does; raises SetupFailed if its thread could not be set up. When
        cancelled, it still waits for a function that has begun."""
        call = ThreadCall(function)
        task = asyncio.current_task()
        self._calls[task] = call
        try:
            self._hand_over(call)
            await asyncio.shield(call.ended)
        except asyncio.CancelledError:
            # The function has been asked to stop. Until it has, another run of the job must not begin.
            if not self._withdraw(call):
                await asyncio.shield(call.ended)
            raise
        finally:
            del self._calls[task]
        if call.is_given_up:
            raise asyncio.CancelledError
        return call.outcome()

    def give_up(self, task: asyncio.Task[Any]) -> None:
        """Ends the task's call although its function goes on."""
        call = self._calls.get(task)
        if call is None or call.ended.done():
            return
        call.is_given_up = True
        with self._lock:
            if call.thread is None:
                self._waiting.remove(call)
            elif call.thread.is_set_up:
                # A thread that is still being set up is kept: another would have to begin with that again.
                call.thread.is_left_behind = True
                self._threads.discard(call.thread)
            follows = self._waiting.popleft() if self._waiting and self._has_room() else None
        wake(call.ended)
        if follows is not None:
            self._start(follows)

    def close(self) -> None:
        """Ends the idle threads now, and each of the others after its call."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for thread in idle:
            thread.inbox.put(None)

    def _has_room(self) -> bool:
        return self._tool.max_calls is None or len(self._threads) < self._tool.max_calls

    def _hand_over(self, call: ThreadCall) -> None:
        with self._lock:
            if self._idle:
                # The thread that became idle last, so that surplus threads stay idle and end.
                call.thread = self._idle.pop()
                call.thread.inbox.put(call)
                return
            if not self._has_room():
                self._waiting.append(call)
                return
        self._start(call)

    def _start(self, call: ThreadCall) -> None:
        # A copy, because threads that end leave the set.
        device = self._tool.device_for(thread.device for thread in list(self._threads))
        thread = call.thread = KeptThread(self._tool, device)
        self._threads.add(thread)
        try:
            name = f"ficha {self._tool.name}"
            threading.Thread(target=self._work, args=(thread, call), name=name, daemon=True).start()
        except BaseException:
            self._threads.discard(thread)
            raise

    def _withdraw(self, call: ThreadCall) -> bool:
        """Takes back a call that no thread has begun."""
        with self._lock:
            if call.thread is not None:
                return False
            self._waiting.remove(call)
            return True

    # On the threads

    def _work(self, thread: KeptThread, call: ThreadCall | None) -> None:
        while call is not None:
            call.perform(thread)
            if os.getpid() != self._pid:
                # The function forked, and the fork returned to here: it must not work in the thread's place.
                os._exit(0)
            # Make the thread available for the next call before the loop is notified that this one has ended: else the
            # loop would start another thread for the next call.
            follows = self._follows(thread)
            call.report()
            # An idle thread must not keep the last call's payload and result alive.
            call = None
            call = self._next_call(thread) if follows is None else follows

    def _follows(self, thread: KeptThread) -> ThreadCall | None:
        """The first call that waits for a thread. If there is none, marks the thread as idle, unless it must end."""
        with self._lock:
            if thread.is_left_behind or self._is_closed:
                self._threads.discard(thread)
                thread.inbox.put(None)
            elif self._waiting:
                call = self._waiting.popleft()
                call.thread = thread
                return call
            else:
                self._idle.append(thread)
        return None

    def _next_call(self, thread: KeptThread) -> ThreadCall | None:
        """The next call of an idle thread; None if the thread is to end."""
        try:
            return thread.inbox.get(timeout=IDLE_S if self._tool.setup is None else None)
        except queue.Empty:
            with self._lock:
                if thread in self._idle:
                    self._idle.remove(thread)
                    self._threads.discard(thread)
                    return None
            return thread.inbox.get()
