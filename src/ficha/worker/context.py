"""The job as its handler sees it: what was done before, and where to put what is done now.

One flow with two drivers: `JobContext` for coroutines, `ThreadJobContext` for plain functions, whose calls block. Both
write through `say`, which is the worker's own desk or, in a child process, a pipe to it.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import re
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from ..errors import Refused
from ..store.base import StoreError
from .steps import Say, Steps
from .steps import item as item_step
from .threads import in_thread

log = logging.getLogger("ficha.job")

T = TypeVar("T")

PROGRESS_S: Final = 0.5
"""Progress is written at most this often; what is said in between is written when the time is up."""
MOST_NOTES: Final = 1_000
"""Lines that one run may add to its job's history; further ones go to the worker's log alone."""
_TAKEN: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "event", "level", "logger", "timestamp"}
"""What a line of the log has already; a field of such a name gets another."""
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class Facts(Struct, frozen=True, gc=False):
    """A job as it was claimed, in plain values that can travel to another process."""

    id: str
    account: str
    tool: str
    attempt: int
    epoch: int
    worker: str
    payload: str
    correlation_id: str | None = None
    session: str | None = None
    batch: str | None = None
    checkpoint: str | None = None
    progress: int = 0
    resume_data: str = "null"

    @property
    def fields(self) -> dict[str, Any]:
        """What every line of the log says of the job."""
        return {
            "worker": self.worker,
            "job": self.id,
            "tool": self.tool,
            "attempt": self.attempt,
            "correlation_id": self.correlation_id or self.id,
        }


class BaseJobContext:
    """What both kinds of context know."""

    __slots__ = ("_facts", "_is_stopped", "_payload")

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._is_stopped = False
        self._payload: dict[str, Any] | None = None

    @property
    def facts(self) -> Facts:
        return self._facts

    @property
    def id(self) -> str:
        return self._facts.id

    @property
    def account(self) -> str:
        return self._facts.account

    @property
    def tool(self) -> str:
        return self._facts.tool

    @property
    def attempt(self) -> int:
        """Which run this is, counting failures: 1 for the first."""
        return self._facts.attempt

    @property
    def batch(self) -> str | None:
        return self._facts.batch

    @property
    def session(self) -> str | None:
        return self._facts.session

    @property
    def payload(self) -> dict[str, Any]:
        """The payload as it was submitted."""
        if self._payload is None:
            self._payload = msgspec.json.decode(self._facts.payload, type=dict[str, Any])
        return self._payload

    @property
    def correlation_id(self) -> str:
        """What the submit carried along, for logs and for calls to others; the job's own id if that was nothing."""
        return self._facts.correlation_id or self._facts.id

    @property
    def traceparent(self) -> str:
        """The W3C trace context of this run, for the headers of calls to others.

        It goes on the trace of a submit whose correlation id is a `traceparent`; else the job's own id is the trace.
        """
        given = _TRACEPARENT.fullmatch(self.correlation_id)
        trace = given[1] if given else self.id.replace("-", "")
        span = hashlib.sha256(f"{self.id} {self._facts.epoch}".encode()).hexdigest()[:16]
        return f"00-{trace}-{span}-01"

    @property
    def resume_point(self) -> str | None:
        """The checkpoint that an earlier run saved last."""
        return self._facts.checkpoint

    @property
    def resume_data(self) -> Any:
        """The data saved with it."""
        return msgspec.json.decode(self._facts.resume_data)

    @property
    def cancelled(self) -> bool:
        """Whether this run is to stop: the job was cancelled or timed out, its lease was lost, or the worker stops."""
        return self._is_stopped

    def stop(self) -> None:
        """Tells the handler to stop."""
        self._is_stopped = True


class JobContext(BaseJobContext):
    """The first argument of every coroutine. Each write is fenced by the lease: a worker that lost it is refused."""

    __slots__ = ("_memory", "_notes", "_say", "_telling", "_told", "_told_at")

    def __init__(self, facts: Facts, say: Say) -> None:
        super().__init__(facts)
        self._say = say
        self._memory: Steps | None = None
        self._told = facts.progress
        self._told_at = 0.0
        self._telling: asyncio.Task[None] | None = None
        self._notes = 0

    @property
    def steps(self) -> Steps:
        if self._memory is None:
            self._memory = Steps(self._say, is_resumed=self._facts.epoch > 1)
        return self._memory

    async def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Runs the function and stores its result; on a resumed job, or called again, the stored result is returned.

        A plain function runs in a thread. Two calls at once run it once. Another function or other arguments under the
        same name are an error.
        """
        stored = await self.steps.enter(name, function, args)
        try:
            if name not in stored:
                is_async = inspect.iscoroutinefunction(function)
                result = await (function(*args) if is_async else in_thread(f"ficha {name}", partial(function, *args)))
                await self.steps.keep(name, result)
            return stored[name]
        finally:
            self.steps.leave(name)

    async def items(self, name: str, iterable: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
        """Goes through the items; on a resumed job, after the last one that was finished.

        An item counts as finished when the loop asks for the next one. The iterable must give the same items in the
        same order each time.
        """
        done = await self.steps.items_done(name)
        number = 0
        async for item in _each(iterable):
            if number >= done:
                yield item
                await self.steps.keep(item_step(name, number), None)
            number += 1

    async def checkpoint(self, name: str, *, progress: int = 0, data: Any = None) -> None:
        """Stores where the job can go on from, with its data, in one act."""
        await self._say("checkpoint", name, progress=progress, data=data)
        self._told, self._told_at = progress, time.monotonic()

    async def progress(self, percent: int) -> None:
        """Tells those who watch how far the job is. Cheap to call often: it is written twice a second at most."""
        if percent == self._told:
            return
        self._told = percent
        wait_s = self._told_at + PROGRESS_S - time.monotonic()
        if self._telling is None and wait_s <= 0:
            await self._tell()
        elif self._telling is None:
            self._telling = asyncio.create_task(self._tell_later(wait_s))

    async def _tell(self) -> None:
        self._told_at = time.monotonic()
        await self._say("report", progress=self._told)

    async def _tell_later(self, wait_s: float) -> None:
        try:
            await asyncio.sleep(wait_s)
            await self._tell()
        except (Refused, StoreError) as error:
            log.debug("progress of job %s was not written: %s", self.id, error)
        finally:
            self._telling = None

    async def partial(self, result: Any, *, progress: int | None = None) -> None:
        """Shows what of the result is there already, to those who watch; the handler's return value replaces it."""
        await self._say("report", progress=progress, partial=result)

    async def log(self, message: str, /, **fields: Any) -> None:
        """Writes a line to the worker's log and to the job's history."""
        named = {f"{name}_" if name in _TAKEN else name: value for name, value in fields.items()}
        log.info(message, extra={**named, **self._facts.fields})
        if self._notes < MOST_NOTES:
            self._notes += 1
            said = "".join(f" {name}={value}" for name, value in fields.items())
            await self._say("note", message + said)

    def finished(self) -> None:
        """Ends what still runs for this run."""
        if self._telling is not None:
            self._telling.cancel()


class ThreadJobContext(BaseJobContext):
    """The first argument of a plain function, which runs in a thread: the same calls, which return when they are done.

    A step's function runs in the handler's own thread.
    """

    __slots__ = ("_job", "_loop")

    def __init__(self, job: JobContext, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(job._facts)
        self._job = job
        self._loop = loop

    @property
    def cancelled(self) -> bool:
        return self._job.cancelled

    def stop(self) -> None:
        self._job.stop()

    def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        steps = self._job.steps
        stored = self._wait(steps.enter(name, function, args))
        try:
            if name not in stored:
                is_async = inspect.iscoroutinefunction(function)
                self._wait(steps.keep(name, self._wait(function(*args)) if is_async else function(*args)))
            return stored[name]
        finally:
            self._loop.call_soon_threadsafe(steps.leave, name)

    def items(self, name: str, iterable: Iterable[T]) -> Iterator[T]:
        done = self._wait(self._job.steps.items_done(name))
        for number, item in enumerate(iterable):
            if number >= done:
                yield item
                self._wait(self._job.steps.keep(item_step(name, number), None))

    def checkpoint(self, name: str, *, progress: int = 0, data: Any = None) -> None:
        self._wait(self._job.checkpoint(name, progress=progress, data=data))

    def progress(self, percent: int) -> None:
        self._wait(self._job.progress(percent))

    def partial(self, result: Any, *, progress: int | None = None) -> None:
        self._wait(self._job.partial(result, progress=progress))

    def log(self, message: str, /, **fields: Any) -> None:
        self._wait(self._job.log(message, **fields))

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


async def _each(iterable: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(iterable, AsyncIterable):
        async for item in iterable:
            yield item
    else:
        for item in iterable:
            yield item
