"""An event loop in virtual time: no selector, no socket, no thread, no waiting.

Every callback belongs to a simulated process, which its context names. Within a process callbacks run in the order they
were made ready, as asyncio promises; which process goes next is drawn from the seed. Time stands still while anything
can run and then jumps to the next timer. A process that is stopped keeps its callbacks until it goes on, which is what
SIGSTOP does; one that was killed keeps them for ever, so its code vanishes at the await where it stood.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Final, NoReturn

PROCESS: Final[ContextVar[Process]] = ContextVar("the simulated process that runs")

MOST_STEPS_AT_ONCE: Final = 50_000
"""So many callbacks without any time passing are a loop that never ends."""


class Process:
    """What runs, stops and dies together, with clocks of its own."""

    def __init__(self, name: str, *, skew_s: float = 0.0) -> None:
        self.name = name
        self.skew_s = skew_s
        """How far its wall clock is off."""
        self.queue: deque[asyncio.Handle] = deque()
        self.is_dead = False
        self.is_stopped = False
        self.fuse = 0
        """After so many callbacks `explode` is called, between two awaits of the process; 0 for never."""
        self.explode: Callable[[], None] = lambda: None
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return self.name


class _Future(asyncio.Future[Any]):
    """A future whose place in a set does not depend on where it lies in memory."""

    def __init__(self, number: int, loop: VirtualLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """The same for tasks."""

    def __init__(self, number: int, coroutine: Any, loop: VirtualLoop, context: Context | None, name: Any) -> None:
        self._number = number
        super().__init__(coroutine, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks of many processes, one after the other, as the seed has it."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.now = 0.0
        self.steps = 0
        self.outside = Process("outside")
        """Whoever is no simulated process: callers, the provider, the database, the faults."""
        self._random = random.random
        self._runnable: list[Process] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count(1)
        self._steps_now = 0

    # What asyncio asks of a loop

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._make_ready(handle)
        return handle

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(next(self._numbers), self)

    def create_task(self, coro: Any, *, name: Any = None, context: Context | None = None) -> asyncio.Task[Any]:
        return _Task(next(self._numbers), coro, self, context, name)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:
        raise AssertionError(f"{func} asks for a thread; there are none in virtual time")

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Context | None = None) -> NoReturn:
        raise AssertionError(f"{callback} comes from a thread; there are none in virtual time")

    def _process_events(self, event_list: Any) -> None:
        """There is nothing outside to hear from."""

    def _write_to_self(self) -> None:
        """There is nobody to wake."""

    def _run_once(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self.now:
            handle = heappop(timers)[2]
            if not handle.cancelled():
                self._make_ready(handle)
        if not self._runnable:
            self._jump()
            return
        process = self._runnable[int(self._random() * len(self._runnable))]
        handle = process.queue.popleft()
        if not process.queue:
            self._runnable.remove(process)
        if handle.cancelled():
            return
        self.steps += 1
        self._steps_now += 1
        handle._run()
        if process.fuse:
            process.fuse -= 1
            if process.fuse == 0:
                process.explode()

    def _jump(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heappop(self._timers)
        assert self._timers, "everything waits and nothing will ever happen again"
        assert self._steps_now < MOST_STEPS_AT_ONCE, f"{self._steps_now} steps were run without any time passing"
        self._steps_now = 0
        self.now = max(self.now, self._timers[0][0])

    def _make_ready(self, handle: asyncio.Handle) -> None:
        process: Process = handle._context.get(PROCESS, self.outside)
        process.queue.append(handle)
        if len(process.queue) == 1 and not process.is_stopped:
            self._runnable.append(process)
        assert self._steps_now < MOST_STEPS_AT_ONCE, f"{process} runs for ever without any time passing"

    # What happens to processes

    def stop_process(self, process: Process) -> None:
        """Nothing of it runs until it is told to go on."""
        if not process.is_stopped:
            process.is_stopped = True
            if process in self._runnable:
                self._runnable.remove(process)

    def continue_process(self, process: Process) -> None:
        if process.is_stopped:
            process.is_stopped = False
            if process.queue:
                self._runnable.append(process)

    def kill_process(self, process: Process) -> None:
        """Nothing of it ever runs again."""
        process.is_dead = True
        process.fuse = 0
        self.stop_process(process)

    def bury(self, processes: list[Process]) -> None:
        """After the end: lets every task that still stands somewhere come to its own end, the dead ones' too."""
        self.set_exception_handler(lambda loop, context: None)
        for process in processes:
            process.fuse = 0
            self.continue_process(process)
        clearing = self.create_task(self._cancel_all())
        clearing.add_done_callback(lambda done: self.stop())
        # A word to stop that was said before may still be waiting to be heard.
        while not clearing.done():
            self.run_forever()
        clearing.result()
        self._timers.clear()
        self.close()

    async def _cancel_all(self) -> None:
        """Again and again: a task may wait once more while it cleans up."""
        for _ in range(100):
            left = asyncio.all_tasks(self) - {asyncio.current_task(self)}
            if not left:
                return
            for task in sorted(left, key=hash):
                task.cancel()
            await asyncio.sleep(0.001)
        raise AssertionError(f"these tasks do not end: {left}")
