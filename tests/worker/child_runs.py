"""Runs of handlers in child processes without a worker, and a look at what is left of them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil

from ficha import Ficha, Refused
from ficha.core.outcomes import Refusal
from ficha.core.records import JobSpec
from ficha.worker.context import Facts, JobContext
from ficha.worker.process_pool import ProcessPool


class LeaseWriter:
    """Stands for the worker's: keeps what runs say, in the order that they say it."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.steps: dict[str, Any] = {}
        self._refusal = refusal

    async def say(self, verb: str, *args: Any, **options: Any) -> Any:
        if self._refusal is not None:
            raise Refused.of(self._refusal)
        self.heard.append((verb, *args, options) if options else (verb, *args))
        if verb == "save_step":
            self.steps.setdefault(*args)
            return json.dumps(self.steps[args[0]])
        return {name: json.dumps(result) for name, result in self.steps.items()}


def a_run(handler: Callable[..., Any], desk: LeaseWriter | None = None, *, epoch: int = 1, **payload: Any) -> Any:
    """A run of the handler, as a tool with the given options: those that no payload has end in an underscore."""
    options = {name[:-1]: payload.pop(name) for name in list(payload) if name.endswith("_")}
    app = Ficha("memory:")
    app.tool(isolation="process", **options)(handler)
    (tool,) = app.tools.values()
    text = msgspec.json.encode(payload, enc_hook=str).decode()
    facts = Facts("0198a7c0-0000-7000-8000-000000000001", "ana", JobSpec(tool.name, tool.pool, 0), 1, epoch, "w1", text)
    return SimpleNamespace(tool=tool, job=JobContext(facts, (desk or LeaseWriter()).say))


@asynccontextmanager
async def opened() -> AsyncIterator[ProcessPool]:
    processes = ProcessPool("w1")
    try:
        yield processes
    finally:
        await processes.close()
        assert children() == []


def children(of: int | None = None) -> list[int]:
    """The child processes that run a tool; the interpreter has one more, for its own use."""
    found = []
    for child in psutil.Process(of).children(recursive=True):
        try:
            if any("spawn_main" in word for word in child.cmdline()):
                found.append(child.pid)
        except psutil.NoSuchProcess:
            continue
    return found


async def stays_still(file: Path) -> bool:
    """Whether nobody writes to the file any more; whoever did, did so a hundred times a second."""
    size = size_of(file)
    await asyncio.sleep(0.3)
    return size_of(file) == size


def size_of(file: Path) -> int:
    return file.stat().st_size


def exists(file: Path) -> bool:
    return file.exists()


def changed_at(file: Path) -> float:
    return file.stat().st_mtime
