"""Tasks, whatever API they came by: their work, their files, their call-backs. Everything kept is bounded."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import secrets
import time
from collections import OrderedDict, deque
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx

from .behaviour import ExtraCallback, Logged, Plan, TaskBehaviour, Verdict
from .pictures import BadInput, Made, make
from .signing import Signing

MOST_TASKS = 20_000
MOST_AT_WORK = 2_000
MOST_LOGGED = 100_000
MOST_FILE_BYTES = 256 * 1024 * 1024
"""All results and uploads together; the oldest are deleted, as real providers do."""
MOST_INPUT_BYTES = 32 * 1024 * 1024
MOST_INPUTS = 4
CALLBACK_TRIES = 4
IMAGE_NAMES = ("image", "video", "person", "human", "model_image", "photo")
"""Of several inputs that are pictures, the one with a name like these is worked on."""


MOST_PICTURES = 8
"""Of one piece of work."""


class Task:
    """A piece of work, and what became of it."""

    def __init__(self, id: str, provider: str, model: str, given: dict[str, Any], behaviour: TaskBehaviour) -> None:
        self.id = id
        self.provider = provider
        self.model = model
        self.given = given
        self.behaviour = behaviour
        self.callback_url: str | None = None
        self.state = "queued"
        self.error: str | None = None
        self.created_at = time.time()
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.made: Made | None = None
        self.file_url: str | None = None
        self.released = asyncio.Event()
        self.told_to_fail: str | None = None
        self.callbacks: deque[dict[str, Any]] = deque(maxlen=100)

    @property
    def file_urls(self) -> list[str]:
        """Where the pictures are: as many as were asked for. The others are the first one in other colours."""
        if self.file_url is None:
            return []
        asked = self.given.get("num_outputs", self.given.get("num_images", 1))
        count = min(asked, MOST_PICTURES) if isinstance(asked, int) else 1
        return [self.file_url, *(f"{self.file_url}?number={number}" for number in range(2, count + 1))]

    @property
    def work_s(self) -> float:
        return round((self.ended_at or time.time()) - (self.started_at or self.created_at), 3)

    @property
    def is_over(self) -> bool:
        return self.state in ("succeeded", "failed", "cancelled")

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "provider": self.provider,
            "model": self.model,
            "state": self.state,
            "error": self.error,
            "callback_url": self.callback_url,
            "callbacks": list(self.callbacks),
        }


class Shape(Protocol):
    """One provider's API: how it names a task, what its call-back says, and how it is signed."""

    name: str

    def new_id(self) -> str: ...

    def callback_body(self, simulator: Simulator, task: Task) -> bytes: ...

    def callback_headers(self, signing: Signing, task: Task, at: int, body: bytes) -> dict[str, str]: ...


class Simulator:
    """The state of the one server."""

    def __init__(self, base_url: str, *, seconds: float = 0.0, retry_seconds: float = 1.0) -> None:
        self.base_url = base_url
        self.plan = Plan()
        self.signing = Signing()
        self.log: deque[Logged] = deque(maxlen=MOST_LOGGED)
        self._seconds = seconds
        self._retry_seconds = retry_seconds
        self._forger = Signing()
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._by_key: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._files: OrderedDict[str, tuple[bytes, str, Task | None]] = OrderedDict()
        self._file_bytes = 0
        self._file_faults: dict[str, int] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._workers = asyncio.Semaphore(2)
        self._http = httpx.AsyncClient(trust_env=False, timeout=30, limits=httpx.Limits(max_connections=100))

    async def close(self) -> None:
        for running in list(self._running):
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._http.aclose()

    # Tasks

    async def start(
        self, shape: Shape, model: str, given: dict[str, Any], callback_url: str | None, key: str | None = None
    ) -> tuple[Task, bool]:
        """A new task, or the one that this key started before; and whether it is a repetition."""
        known = self._by_key.get((shape.name, key)) if key else None
        if known in self._tasks:
            return self._tasks[known], True
        if len(self._running) >= MOST_AT_WORK:
            raise BadInput(f"at most {MOST_AT_WORK} tasks are worked on at a time")
        task = Task(shape.new_id(), shape.name, model, given, self.plan.task(shape.name, model))
        task.callback_url = callback_url
        self._tasks[task.id] = task
        if key:
            self._by_key[(shape.name, key)] = task.id
        _trim(self._tasks, MOST_TASKS)
        _trim(self._by_key, MOST_TASKS)
        if task.behaviour.early:
            await self._run(shape, task)
        else:
            self._later(self._run(shape, task))
        return task, False

    def task(self, provider: str, id: str) -> Task | None:
        task = self._tasks.get(id)
        return task if task is not None and task.provider == provider else None

    def tasks(self) -> list[Task]:
        return list(self._tasks.values())

    def any_task(self, id: str) -> Task | None:
        return self._tasks.get(id)

    def cancel(self, task: Task) -> bool:
        if task.is_over:
            return False
        self._end(task, "cancelled")
        task.released.set()
        return True

    def reset(self) -> None:
        self.plan.clear()
        self.log.clear()
        for task in self._tasks.values():
            self.cancel(task)
        for kept in (self._tasks, self._by_key, self._files, self._file_faults):
            kept.clear()
        self._file_bytes = 0

    async def _run(self, shape: Shape, task: Task) -> None:
        behaviour = task.behaviour
        task.state, task.started_at = "working", time.time()
        if behaviour.hold and not behaviour.early:
            await task.released.wait()
        elif not behaviour.early:
            seconds = self._seconds if behaviour.seconds is None else behaviour.seconds
            with suppress(TimeoutError):
                await asyncio.wait_for(task.released.wait(), seconds)
        if task.is_over:
            return
        error = behaviour.fail or task.told_to_fail
        if error is None:
            try:
                async with self._workers:
                    task.made = await self._make(task)
            except BadInput as bad:
                error = str(bad)
        task.given = {name: value for name, value in task.given.items() if len(str(value)) < 1_000}
        if task.is_over:
            return
        for verdict in behaviour.verdicts or ("failed" if error is not None else "succeeded",):
            self._settle(task, verdict, error)
            if not behaviour.lose:
                await asyncio.sleep(behaviour.delay)
                told = ExtraCallback(
                    verdict="succeeded" if behaviour.forge else verdict,
                    times=behaviour.duplicate,
                    forge=behaviour.forge,
                    wrong_token=behaviour.wrong_token,
                )
                await self.call_back(shape, task, told)

    async def _make(self, task: Task) -> Made:
        images: list[tuple[bool, bytes]] = []
        rest = {}
        for name, value in task.given.items():
            if isinstance(value, str) and (data := await self._fetched(value)) is not None:
                images.append((name.startswith(IMAGE_NAMES), data))
            else:
                rest[name] = value
            if len(images) > MOST_INPUTS:
                raise BadInput(f"at most {MOST_INPUTS} pictures are taken")
        images.sort(key=lambda image: not image[0])
        return await asyncio.to_thread(make, task.model, rest, [data for _, data in images])

    def _settle(self, task: Task, verdict: Verdict, error: str | None) -> None:
        self._end(task, verdict)
        task.error = (error or "the model crashed") if verdict == "failed" else None
        if verdict == "succeeded" and task.file_url is None:
            if task.made is None:  # it was told to fail first and to succeed then
                task.made = make("freestyle", {"prompt": task.id}, [])
            task.file_url = self.keep(task.made.data, task.made.media_type, task.made.suffix, task)
            task.made.data = b""

    def _end(self, task: Task, state: str) -> None:
        task.state, task.ended_at = state, time.time()

    # Call-backs

    async def call_back(self, shape: Shape, task: Task, told: ExtraCallback) -> list[int | None]:
        """Sends call-backs, and says how each was answered at last; None: not at all."""
        url = told.url or task.callback_url
        if url is None or not _is_loopback(url):
            return []
        if told.wrong_token:
            url = url[:-1] + ("A" if url[-1] != "A" else "B")
        told_task = task
        if told.verdict is not None and told.verdict != task.state:
            told_task = self._as_if(task, told.verdict)
        body = shape.callback_body(self, told_task)
        signing = self._forger if told.forge else self.signing
        headers = shape.callback_headers(signing, task, int(time.time()) - told.age, body)
        headers["Content-Type"] = "application/json"
        sent = (self._post(task, url, headers, body) for _ in range(min(told.times, 100)))
        return list(await asyncio.gather(*sent))

    def _as_if(self, task: Task, verdict: Verdict) -> Task:
        """The task as it would be with another end."""
        other = Task(task.id, task.provider, task.model, task.given, task.behaviour)
        other.created_at, other.started_at = task.created_at, task.started_at
        other.made, other.file_url = task.made, task.file_url
        self._settle(other, verdict, None)
        return other

    async def _post(self, task: Task, url: str, headers: dict[str, str], body: bytes) -> int | None:
        """Tries again what was not taken, as the real ones do; a refusal is the end of it."""
        status = None
        for number in range(CALLBACK_TRIES):
            if number:
                await asyncio.sleep(self._retry_seconds)
            try:
                answer = await self._http.post(url, headers=headers, content=body)
                status = answer.status_code
            except httpx.HTTPError:
                status = None
            task.callbacks.append({"at": time.time(), "status": status})
            if status is not None and status < 500 and status != 429:
                break
        return status

    # Files

    def keep(self, data: bytes, media_type: str, suffix: str, task: Task | None = None) -> str:
        """Stores a file, and says its address."""
        name = f"{secrets.token_hex(12)}.{suffix}"
        self._files[name] = (data, media_type, task)
        if task is not None and task.behaviour.file is not None:
            self._file_faults[name] = task.behaviour.file_times or -1
        self._file_bytes += len(data)
        while self._file_bytes > MOST_FILE_BYTES:
            oldest, (gone, _, _) = self._files.popitem(last=False)
            self._file_bytes -= len(gone)
            self._file_faults.pop(oldest, None)
        return f"{self.base_url}/files/{name}"

    def file(self, name: str) -> tuple[bytes, str, str | None] | None:
        """A file's bytes and type, and what is to be wrong with this download of it."""
        found = self._files.get(name)
        if found is None:
            return None
        data, media_type, task = found
        left = self._file_faults.get(name, 0)
        if not left or task is None:
            return data, media_type, None
        self._file_faults[name] = left - (left > 0)
        return data, media_type, task.behaviour.file

    async def _fetched(self, value: str) -> bytes | None:
        """The bytes that an input names by an address, a data URI or the name of an upload; None: it is only text."""
        if value.startswith("data:"):
            head, _, data = value.partition(",")
            try:
                return base64.b64decode(data, validate=True) if head.endswith(";base64") else data.encode()
            except ValueError as error:
                raise BadInput("the data URI cannot be decoded") from error
        if value.startswith("api/"):
            found = self._files.get(value.removeprefix("api/"))
            if found is None:
                raise BadInput(f"no file {value!r} was uploaded")
            return found[0]
        if not value.startswith(("http://", "https://")):
            return None
        try:
            if not _is_loopback(value):
                raise BadInput("the simulator reaches loopback addresses only")
            async with self._http.stream("GET", value) as answer:
                if answer.status_code != 200:
                    raise BadInput(f"failed to download the input: status {answer.status_code}")
                data = bytearray()
                async for chunk in answer.aiter_bytes():
                    data += chunk
                    if len(data) > MOST_INPUT_BYTES:
                        raise BadInput("the input is too large")
                return bytes(data)
        except httpx.HTTPError as error:
            raise BadInput("failed to download the input") from error

    def _later(self, work: Any) -> None:
        running = asyncio.create_task(work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)


def _is_loopback(url: str) -> bool:
    """The simulator talks to its own machine only."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _trim(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
