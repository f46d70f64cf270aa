"""The job as its handler sees it: what earlier runs stored, and how to store more.

`JobContext` is for coroutines; `ThreadJobContext` is for plain functions, and its calls block. Both write through
`lease_call`: the worker's `LeaseWriter` or, in a child process, a pipe to it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, overload
from uuid import UUID

import msgspec
from msgspec import Struct

from .. import tracing
from ..core.payload import read_json
from ..core.records import JobSpec
from ..errors import Refused
from ..file_data import FileData
from ..job_files import BaseJobFile, FileFacts, JobFile, ThreadJobFile
from ..job_log import FIELDS, fields_of
from ..redaction import masked, redacted
from ..store.base import StoreError
from ..trace_context import run_context
from .results import FinalError
from .steps import LeaseCall, Steps, refusing_unstorable
from .steps import item as item_step
from .threads import in_thread

log = logging.getLogger("ficha.job")

_NO_SPAN: Final = nullcontext()

T = TypeVar("T")
P = ParamSpec("P")

PROGRESS_S: Final = 0.5
"""Progress is written at most this often; the last value reported in between is written when the time is up."""
_RESERVED: Final = {
    *(*vars(logging.makeLogRecord({})), "message", "asctime", "event", "level", "logger", "timestamp"),
    *(*FIELDS, "trace_id", "span_id"),
}
"""Fields that every log line has already; a handler's field of such a name gets an underscore."""
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Facts(Struct, frozen=True, gc=False):
    """A job as it was claimed, in plain values that can be sent to another process."""

    id: str
    account: str
    spec: JobSpec
    attempt: int
    epoch: int
    worker: str
    payload: str
    batch: str | None = None
    checkpoint: str | None = None
    progress: int = 0
    resume_data: str = "null"

    @property
    def tool(self) -> str:
        return self.spec.tool

    @property
    def trace_context(self) -> str:
        """The trace context of this run."""
        return run_context(self.id, self.spec.trace_context, self.epoch)

    def step_span(self, name: str) -> AbstractContextManager[Any]:
        """The span of a step of this run, if tracing is on."""
        return _NO_SPAN if tracing.steps is None else tracing.steps.step(self.trace_context, name)

    def log_fields(self, status: str, duration_s: float) -> dict[str, Any]:
        """The fields of every log line about the job."""
        return fields_of(
            self.id,
            self.spec,
            worker=self.worker,
            attempt=self.attempt,
            epoch=self.epoch,
            status=status,
            duration_s=duration_s,
        )


class BaseJobContext:
    """What both kinds of context share."""

    __slots__ = ("_device", "_facts", "_file_facts", "_is_stopped", "_payload", "_setup")

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._is_stopped = False
        self._payload: dict[str, Any] | None = None
        self._setup: Any = None
        self._device: str | None = None
        self._file_facts: dict[str, FileFacts] = {}

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
        return self._facts.spec.tool

    @property
    def attempt(self) -> int:
        """The number of this attempt: one more than the failures so far."""
        return self._facts.attempt

    @property
    def batch(self) -> str | None:
        return self._facts.batch

    @property
    def session(self) -> str | None:
        return self._facts.spec.session

    @property
    def payload(self) -> dict[str, Any]:
        """The payload as it was submitted."""
        if self._payload is None:
            self._payload = read_json(self._facts.payload)
        return self._payload

    @property
    def setup(self) -> Any:
        """What the tool's `setup` returned, such as a model; None if the tool has none."""
        return self._setup

    @property
    def device(self) -> str | None:
        """The one of the tool's `devices` that this thread or child process is bound to."""
        return self._device

    def _file_ids(self, field: str) -> list[str]:
        """The ids of the files that a field of the payload names; an id is returned as it is."""
        value = self.payload.get(field, field)
        found = [
            one.get("file") if isinstance(one, dict) else one for one in (value if isinstance(value, list) else [value])
        ]
        ids = [str(UUID(one)) for one in found if isinstance(one, str) and _UUID.fullmatch(one)]
        if len(ids) < len(found) or not ids:
            raise FinalError(f"the payload's field {field!r} names no file")
        return ids

    def _file_id(self, field: str) -> str:
        ids = self._file_ids(field)
        if len(ids) > 1 or isinstance(self.payload.get(field), list):
            raise FinalError(f"the payload's field {field!r} is a list of files; job.files({field!r}) gives them all")
        return ids[0]

    @property
    def correlation_id(self) -> str:
        """The correlation id of the submit, for logs and for calls to other services; by default the job's id."""
        return self._facts.spec.correlation_id or self._facts.id

    @property
    def traceparent(self) -> str:
        """The W3C trace context of this run, for the headers of calls to other services.

        The trace is the submit's. If the submit had none, a correlation id that is a `traceparent` is used, else a
        trace with the job's id.
        """
        return self._facts.trace_context.partition(" ")[0]

    @property
    def resume_point(self) -> str | None:
        """The name of the last checkpoint that an earlier run saved."""
        return self._facts.checkpoint

    @property
    def resume_data(self) -> Any:
        """The data saved with that checkpoint."""
        return read_json(self._facts.resume_data)

    @property
    def cancelled(self) -> bool:
        """Whether this run should stop: the job was cancelled or timed out, its lease was lost, or the worker stops."""
        return self._is_stopped

    def stop(self) -> None:
        """Asks the handler to stop."""
        self._is_stopped = True

    def prepare(self, setup: Any, device: str | None) -> None:
        """Gives the handler what its tool's `setup` returned, and its device."""
        self._setup, self._device = setup, device


class JobContext(BaseJobContext):
    """The first argument of every coroutine handler. The lease fences each write: a worker that lost it is refused."""

    __slots__ = (
        "_began_at",
        "_is_progress_lost",
        "_lease_call",
        "_progress",
        "_progress_at",
        "_progress_task",
        "_steps",
    )

    def __init__(self, facts: Facts, lease_call: LeaseCall) -> None:
        super().__init__(facts)
        self._began_at = time.monotonic()
        self._lease_call = lease_call
        self._steps: Steps | None = None
        self._progress = facts.progress
        self._progress_at = 0.0
        self._is_progress_lost = False
        self._progress_task: asyncio.Task[None] | None = None

    @property
    def steps(self) -> Steps:
        if self._steps is None:
            self._steps = Steps(self._lease_call, is_resumed=self._facts.epoch > 1)
        return self._steps

    @overload
    async def step(
        self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **options: P.kwargs
    ) -> T: ...
    @overload
    async def step(self, name: str, function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T: ...

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        """Runs the function and stores its result as JSON; if a result is stored already, returns that instead.

        A plain function runs in a thread. Two calls at once run it once. Another function or other arguments under the
        same name are an error. The result is returned as it was stored, also the first time: as the type of the
        function's return annotation (a model, a dataclass, a date), else as plain JSON. A result that cannot be stored
        fails the job for good.
        """
        stored = await self.steps.acquire(name, function, args, options)
        try:
            if name not in stored:
                call = partial(function, *args, **options)
                with self._facts.step_span(name):
                    is_async = inspect.iscoroutinefunction(function)
                    result = call() if is_async else await in_thread(f"ficha {name}", call)
                    await self.steps.save(name, await result if inspect.isawaitable(result) else result)
            return self._with_file(self.steps.value(name, function, stored))
        finally:
            self.steps.release(name)

    def _with_file(self, value: Any) -> Any:
        """The value of a step; a file in it is bound to this run, so that it can be read."""
        if isinstance(value, BaseJobFile):
            value.bind(value._facts, self._lease_call)
        return value

    async def items(self, name: str, iterable: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
        """Iterates over the items; a resumed job skips the finished ones.

        An item counts as finished when the loop asks for the next one. The iterable must give the same items in the
        same order each time.
        """
        done = await self.steps.items_done(name)
        number = 0
        async for item in _each(iterable):
            if number >= done:
                yield item
                await self.steps.save(item_step(name, number), None)
            number += 1

    async def checkpoint(self, name: str, *, progress: int = 0, data: Any = None) -> None:
        """Stores in one write where the job can resume, and with which data."""
        with refusing_unstorable(f"the data of the checkpoint {name!r}"):
            await self._lease_call("checkpoint", name, progress=progress, data=data)
        self._progress, self._progress_at = progress, time.monotonic()

    async def progress(self, percent: int) -> None:
        """Shows followers how far the job is. Cheap to call often: it is written at most twice a second."""
        if percent == self._progress and not self._is_progress_lost:
            return
        self._progress = percent
        wait_s = self._progress_at + PROGRESS_S - time.monotonic()
        if self._progress_task is None and wait_s <= 0:
            await self._write_progress()
        elif self._progress_task is None:
            self._progress_task = asyncio.create_task(self._write_progress_later(wait_s))

    async def _write_progress(self) -> None:
        self._progress_at = time.monotonic()
        try:
            await self._lease_call("report", progress=self._progress)
        except BaseException:
            # Perhaps nobody has heard it, so it may be said again, and at once.
            self._is_progress_lost, self._progress_at = True, 0.0
            raise
        self._is_progress_lost = False

    async def _write_progress_later(self, wait_s: float) -> None:
        try:
            await asyncio.sleep(wait_s)
            await self._write_progress()
        except (Refused, StoreError) as error:
            log.debug("progress of job %s was not written: %s", self.id, error)
        finally:
            self._progress_task = None

    async def partial(self, result: Any, *, progress: int | None = None) -> None:
        """Shows followers the part of the result that is ready; the handler's return value replaces it."""
        with refusing_unstorable("the partial result"):
            await self._lease_call("report", progress=progress, partial=result)

    async def log(self, message: str, /, **fields: Any) -> None:
        """Writes a line to the worker's log and to the job's history. In both, secret fields are masked, and what looks
        like a secret in texts."""
        message, fields = redacted(message), masked(fields)
        named = {f"{name}_" if name in _RESERVED else name: value for name, value in fields.items()}
        log.info(message, extra={**named, **self.log_fields()})
        said = "".join(f" {name}={value}" for name, value in fields.items())
        await self._lease_call("note", message + said)

    def file(self, field: str) -> JobFile:
        """The file that this field of the payload names; or the one with this id, such as that of a stored step.

        Its name, type and size are known if the handler's parameter is a `ficha.File`.
        """
        return self._job_file(self._file_id(field))

    def files(self, field: str) -> list[JobFile]:
        """The files that a field of the payload names, which is a list."""
        return [self._job_file(file_id) for file_id in self._file_ids(field)]

    def _job_file(self, file_id: str) -> JobFile:
        return JobFile(file_id, self._file_facts.get(file_id), self._lease_call)

    async def save(self, name: str, data: FileData) -> JobFile:
        """Stores a file as a result of the job, and returns it; put it into the job's result to show where it is.

        data: bytes, a path, a file that is open in binary mode, or chunks of bytes. A repeated run saves its files
        again; to save a file only once, save it inside a step.
        """
        made: FileFacts = msgspec.convert(await self._lease_call("save_file", name, data), FileFacts)
        self._file_facts[made.id] = made
        return self._job_file(made.id)

    def log_fields(self) -> dict[str, Any]:
        """The fields of a log line of this run."""
        return self._facts.log_fields("running", time.monotonic() - self._began_at)

    def finished(self) -> None:
        """Cancels what is still pending for this run."""
        if self._progress_task is not None:
            self._progress_task.cancel()


class ThreadJobContext(BaseJobContext):
    """The first argument of a plain function, which runs in a thread: the same calls, but blocking.

    A step's function runs in the handler's thread.
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

    def log_fields(self) -> dict[str, Any]:
        """As `JobContext.log_fields`."""
        return self._job.log_fields()

    @overload
    def step(self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **options: P.kwargs) -> T: ...
    @overload
    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T: ...

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        """As `JobContext.step`, in the handler's own thread."""
        steps = self._job.steps
        stored = self._wait(steps.acquire(name, function, args, options))
        try:
            if name not in stored:
                with self._facts.step_span(name):
                    result = function(*args, **options)
                    result = self._wait(_awaited(result)) if inspect.isawaitable(result) else result
                    self._wait(steps.save(name, result))
            value = self._job._with_file(steps.value(name, function, stored))
            return self._blocking(value) if isinstance(value, BaseJobFile) else value
        finally:
            self._loop.call_soon_threadsafe(steps.release, name)

    def file(self, field: str) -> ThreadJobFile:
        """As `JobContext.file`; its calls block."""
        return self._blocking(self._job.file(field))

    def files(self, field: str) -> list[ThreadJobFile]:
        return [self._blocking(file) for file in self._job.files(field)]

    def save(self, name: str, data: FileData) -> ThreadJobFile:
        return self._blocking(self._wait(self._job.save(name, data)))

    def _blocking(self, file: BaseJobFile) -> ThreadJobFile:
        made = ThreadJobFile(file.id, file._facts, file._call)
        made.wait_with(self._wait)
        return made

    def items(self, name: str, iterable: Iterable[T]) -> Iterator[T]:
        done = self._wait(self._job.steps.items_done(name))
        for number, item in enumerate(iterable):
            if number >= done:
                yield item
                self._wait(self._job.steps.save(item_step(name, number), None))

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


async def bind_files(job: JobContext, files: Sequence[BaseJobFile]) -> str | None:
    """Gives the files of a payload their facts and their reader; returns the problem if a file is gone."""
    unknown = [file_id for file_id in dict.fromkeys(file.id for file in files) if file_id not in job._file_facts]
    if unknown:
        found = msgspec.convert(await job._lease_call("files_of", unknown), list[FileFacts])
        job._file_facts.update({facts.id: facts for facts in found})
    for file in files:
        if (facts := job._file_facts.get(file.id)) is None:
            return f"the file {file.id} was removed before the job could read it"
        file.bind(facts, job._lease_call)
    return None


def bind_to_thread(context: ThreadJobContext, files: Sequence[BaseJobFile]) -> None:
    """Makes reads of a payload's files block the context's thread."""
    for file in files:
        if isinstance(file, ThreadJobFile):
            file.wait_with(context._wait)


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


async def _each(iterable: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(iterable, AsyncIterable):
        async for item in iterable:
            yield item
    else:
        for item in iterable:
            yield item
