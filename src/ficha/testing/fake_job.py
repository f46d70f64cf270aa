"""A job for a handler that a test calls directly: no worker, no database, and a record of all that the handler
reports."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, cast

from msgspec.structs import asdict

from .. import validation as arg
from ..core.payload import read_json
from ..core.records import JobSpec
from ..file_data import chunks_of
from ..ids import new_id
from ..job_files import FileFacts
from ..validation import Limits
from ..worker.context import Facts, JobContext, ThreadJobContext

T = TypeVar("T")
BYTES = "application/octet-stream"


class FakeJobContext(JobContext):
    """Hand it to a coroutine handler as its job, and its `in_thread` to a plain function; then look at what it
    recorded.

    >>> job = FakeJobContext(stored={"download": "pixels"})
    >>> asyncio.run(job.step("download", print, "never called"))
    'pixels'

    payload, account, tool, attempt, batch: what the handler sees of its job.
    labels: the job's other fields that a submit gives, such as its correlation id.
    stored: results of steps that an earlier run stored.
    resume_point, resume_data: the checkpoint that an earlier run saved.
    faults: by the name of a step, the exception that is raised there instead of running it.
    files: by field of the payload, the content of a file. The field gets the file's id, and `job.file(field)` is what
        the handler would get for it.

    What it records: `stored` has the results of all steps by now, `checkpoints` the name, progress and data of
    each, `reported` every percentage, `partials` every partial result, `lines` what was logged, and `saved` the content
    of the files that it saved, by name.

    >>> job = FakeJobContext(files={"image": b"pixels"})
    >>> asyncio.run(job.file("image").read())
    b'pixels'
    """

    __slots__ = ("_contents", "checkpoints", "faults", "lines", "partials", "reported", "saved", "stored")

    def __init__(
        self,
        payload: Mapping[str, Any] | None = None,
        *,
        account: str = "account",
        tool: str = "tool",
        attempt: int = 1,
        batch: str | None = None,
        stored: Mapping[str, Any] | None = None,
        resume_point: str | None = None,
        resume_data: Any = None,
        faults: Mapping[str, Exception] | None = None,
        files: Mapping[str, bytes] | None = None,
        **labels: Any,
    ) -> None:
        given = {field: FileFacts(new_id(), field, BYTES, len(content)) for field, content in (files or {}).items()}
        spec = JobSpec(tool, "default", 0, **labels)
        # Only a run after the first one reads what is stored.
        epoch = 2 if stored or resume_point or attempt > 1 else 1
        facts = Facts(
            new_id(),
            account,
            spec,
            attempt,
            epoch,
            "test",
            _json({**(payload or {}), **{field: facts.id for field, facts in given.items()}}, "the payload"),
            batch,
            resume_point,
            resume_data=_json(resume_data, "the checkpoint's data"),
        )
        super().__init__(facts, self._said)
        self.stored: dict[str, Any] = dict(stored or {})
        self.checkpoints: list[tuple[str, int, Any]] = []
        self.reported: list[int] = []
        self.partials: list[Any] = []
        self.lines: list[str] = []
        self.faults = dict(faults or {})
        self.saved: dict[str, bytes] = {}
        self._contents = {facts.id: (files or {})[field] for field, facts in given.items()}
        self._file_facts = {facts.id: facts for facts in given.values()}

    @property
    def in_thread(self) -> ThreadJobContext:
        """The same job for a handler that is a plain function: the same calls, without `await`."""
        return _BlockingFake(self, cast(asyncio.AbstractEventLoop, _AtOnce()))

    async def progress(self, percent: int) -> None:
        """Every value is kept, where a worker would write at most two a second."""
        await self._said("report", progress=percent)

    def check(self, name: str) -> None:
        """Raises the fault of this step, if there is one."""
        if (fault := self.faults.get(name)) is not None:
            raise fault

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        self.check(name)
        return await super().step(name, function, *args, **options)

    async def _said(self, verb: str, *args: Any, **options: Any) -> Any:
        match verb:
            case "steps":
                return {name: _json(result, "the step's result") for name, result in self.stored.items()}
            case "save_step":
                name, result = args
                # A step that is stored already keeps its result, as in a database.
                kept = self.stored.setdefault(name, read_json(_json(result, "the step's result")))
                return _json(kept, "the step's result")
            case "checkpoint":
                data = read_json(_json(options["data"], "the checkpoint's data"))
                self.checkpoints.append((args[0], arg.percent(options["progress"]), data))
            case "report":
                if options.get("progress") is not None:
                    self.reported.append(arg.percent(options["progress"]))
                if options.get("partial") is not None:
                    self.partials.append(read_json(_json(options["partial"], "the partial result")))
            case "note":
                self.lines.append(args[0])
            case "open_file":
                return _Pieces(self._contents[args[0]])
            case "url_of":
                return f"https://files.invalid/{args[0]}"
            case "save_file":
                name, data = args
                content = b"".join([chunk async for chunk in chunks_of(data)])
                self.saved[name] = content
                made = FileFacts(new_id(), name, BYTES, len(content))
                self._contents[made.id] = content
                return asdict(made)
        return None


class _Pieces:
    """A file's content as an iterator that any event loop can continue."""

    def __init__(self, content: bytes) -> None:
        self._left = [content] if content else []

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class _BlockingFake(ThreadJobContext):
    """Each call runs on a short-lived loop in a thread, so that it works wherever the test itself runs."""

    __slots__ = ()

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        cast(FakeJobContext, self._job).check(name)
        return super().step(name, function, *args, **options)

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        found: list[T] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                found.append(asyncio.run(coroutine))
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run, name="ficha fake job")
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return found[0]


class _AtOnce:
    """Stands in for a worker's event loop: calls each function at once."""

    def call_soon_threadsafe(self, function: Callable[..., Any], *args: Any) -> None:
        function(*args)


def _json(value: Any, what: str) -> str:
    return arg.stored(value, what, Limits())
