"""The application that real worker processes run: what a handler can do, well or badly, with a trace of each deed.

A worker's settings and the file where deeds are written down come from the environment.
"""

import asyncio
import gc
import json
import logging
import os
import signal
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ficha import CommitLimits, Ficha, FinalError, JobContext, Partial, Plan, Pool, Refused, Retry

TRACE = "WORKER_TEST_TRACE"
SETTINGS = "WORKER_TEST_SETTINGS"

tools: list[tuple[dict[str, Any], Any]] = []


def build(url: str | None = None, **settings: Any) -> Ficha:
    """An application with every tool of the application."""
    if "give_up_s" in settings:
        settings["commit_limits"] = CommitLimits(give_up_s=settings.pop("give_up_s"))
    app = Ficha(url, **{"plans": [Plan("all")], "pools": [Pool("single", slots=1)]} | settings)
    for options, handler in tools:
        app.tool(**options)(handler)
    return app


def __getattr__(name: str) -> Any:
    """`app` is made when it is asked for: a process may have imported this before it knew its settings."""
    if name == "app":
        return build(**json.loads(os.environ.get(SETTINGS, "{}")))
    raise AttributeError(name)


def tool(**options: Any) -> Any:
    def declare(handler: Any) -> Any:
        tools.append((options, handler))
        return handler

    return declare


def deed(*words: object) -> None:
    """Writes one line, whole, whoever writes beside it."""
    file = os.open(os.environ[TRACE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(file)


def deeds() -> list[list[str]]:
    path = Path(os.environ[TRACE])
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def is_open(gate: str) -> bool:
    """A test opens a gate by making a file of its name beside the trace."""
    return Path(os.environ[TRACE]).with_name(gate).exists()


async def passed(gate: str) -> None:
    while not is_open(gate):  # noqa: ASYNC110 (it is another process that opens it)
        await asyncio.sleep(0.01)


def wait_for(gate: str) -> None:
    while not is_open(gate):
        time.sleep(0.01)


# Tried again


@tool(cost=5, attempts=2, backoff=0.2)
async def fails_once(job: JobContext) -> str:
    if job.attempt == 1:
        raise RuntimeError("not yet")
    return "done"


# Counted


@tool(cost=1)
async def count(job: JobContext, number: int, workers: int = 1) -> int:
    """Waits until each of so many workers has a job, so that none has all."""
    deed("count", number, job.facts.worker)
    while len({words[2] for words in deeds() if words[0] == "count"}) < workers:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return number


@tool(cost=1)
async def quick(job: JobContext, word: str = "done") -> str:
    return word


@tool(cost=1)
async def is_traversed(job: JobContext) -> bool:
    """Whether garbage collections traverse what the process has loaded."""
    return any(isinstance(found, Ficha) for found in gc.get_objects())


@tool(cost=1, pool="single")
async def next_one(job: JobContext) -> str:
    return "done"


@tool(cost=3)
async def steps(job: JobContext, moments: list[float]) -> list[str]:
    """Says when a step is run, and when it is known to be stored."""
    found = []
    for number, moment in enumerate(moments):
        found.append(await job.step(f"step {number}", _worked, job.id, number))
        deed("stored", job.id, number)
        await asyncio.sleep(moment)
    return found


async def _worked(job_id: str, number: int) -> str:
    deed("ran", job_id, number)
    await asyncio.sleep(0.01)
    return f"{job_id} {number}"


@tool(cost=5)
async def film(job: JobContext, address: str, calls: int) -> list[str]:
    """Paid calls. Each run makes one that was not made before and then hangs, until the last."""
    found = []
    for number in range(calls):
        made: list[int] = []

        def pay(number: int = number, made: list[int] = made) -> str:
            made.append(number)
            with urllib.request.urlopen(f"{address}/{number}", timeout=20) as answer:  # noqa: S310 (on loopback)
                return str(answer.read(), "ascii")

        found.append(await job.step(f"call {number}", pay))
        if made and number < calls - 1:
            deed("hangs", number)
            await asyncio.Event().wait()
    return found


@tool(cost=5)
def loop(job: Any, items: int, stops_at: int) -> int:
    """Goes through its items, and stays at one of them in its first run."""
    for item in job.items("item", range(items)):
        deed("item", item)
        if item == stops_at and job.facts.epoch == 1:
            time.sleep(1_000)
    return items


# Held


@tool(cost=4)
async def frozen(job: JobContext) -> str:
    """Its first run tries to write whatever it can once it goes on, told to stop or not."""
    if job.facts.epoch > 1:
        return "second"
    deed("began", job.id)
    writes = {
        "nothing": lambda: passed("thaw"),
        "step": lambda: job.step("late", deed, "late"),
        "checkpoint": lambda: job.checkpoint("late", progress=50),
        "partial": lambda: job.partial({"late": True}),
        "log": lambda: job.log("late"),
        "progress": lambda: job.progress(99),
    }
    while writes:
        verb, write = next(iter(writes.items()))
        try:
            await write()
            deed("wrote", verb)
        except asyncio.CancelledError:
            deed("stopped", job.id)
            if verb != "nothing":
                continue
        except Refused as refused:
            deed("refused", verb, refused.code)
        del writes[verb]
    return "first"


@tool(cost=4)
async def blocks(job: JobContext, seconds: float) -> str:
    deed("began", job.id)
    time.sleep(seconds)  # noqa: ASYNC251 (a handler that should not)
    return "done"


@tool(cost=4)
async def waits(job: JobContext, gate: str) -> str:
    deed("began", job.id)
    await passed(gate)
    return "done"


@tool(cost=1)
async def takes_a_while(job: JobContext) -> str:
    await asyncio.sleep(0.3)
    return "done"


@tool(cost=1)
async def kills(job: JobContext) -> None:
    await asyncio.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)


@tool(cost=4, timeout=2.0)
async def waits_briefly(job: JobContext, gate: str) -> str:
    deed("began", job.id)
    await passed(gate)
    return "done"


@tool(cost=4)
def waits_in_thread(job: Any, gate: str) -> str:
    deed("began", job.id)
    while not is_open(gate):
        if job.cancelled:
            return "stopped"
        time.sleep(0.01)
    return "done"


@tool(cost=2, pool="single", timeout=1.0)
async def hangs(job: JobContext) -> None:
    deed("began", job.id)
    await asyncio.Event().wait()


@tool(cost=2, pool="single", timeout=1.0, stop_grace=0.2)
def hangs_in_thread(job: Any) -> None:
    deed("began", job.id)
    time.sleep(1_000)


@tool(cost=2, timeout=1.0, stop_grace=2.0)
def overstays(job: Any) -> None:
    deed("began", job.id)
    wait_for("never")


@tool(cost=2, pool="single", timeout=1.0)
async def hangs_the_loop(job: JobContext) -> None:
    deed("began", job.id)
    time.sleep(1_000)  # noqa: ASYNC251 (a handler that should not)


# Ticking until they are stopped


@tool(cost=6)
async def ticks(job: JobContext) -> None:
    while True:
        deed("tick", job.id, job.facts.epoch)
        await asyncio.sleep(0.02)


@tool(cost=6)
def ticks_in_thread(job: Any) -> None:
    while not job.cancelled:
        deed("tick", job.id, job.facts.epoch)
        time.sleep(0.02)


@tool(cost=6, isolation="process", stop_grace=0.2, environment=[TRACE])
def ticks_in_process(job: Any) -> None:
    """It does not listen, so its process must be ended."""
    while True:
        deed("tick", job.id, job.facts.epoch)
        time.sleep(0.02)


# Deaf to everything


@tool(cost=4)
def deaf_thread(job: Any) -> str:
    deed("began", job.id)
    wait_for("never")
    return "never"


@tool(cost=4)
async def deaf_coroutine(job: JobContext) -> None:
    deed("began", job.id)
    while not is_open("never"):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            deed("swallowed", job.id)


@tool(cost=4)
async def leaves_in_anger(job: JobContext, gate: str) -> str:
    """Told to stop, it raises something else."""
    deed("began", job.id)
    try:
        await passed(gate)
    except asyncio.CancelledError:
        raise RuntimeError("the connection was torn down") from None
    return "done"


@tool(cost=4)
async def outlives(job: JobContext, gate: str) -> list[str]:
    """Uses the database after the gate, wherever it is then."""
    deed("began", job.id)
    await passed(gate)
    deed("asks", job.id)
    found = await job.step("paid", _worked, job.id, 1)
    await job.checkpoint("paid", progress=50)
    return [found]


@tool(cost=4)
def outlives_in_thread(job: Any, gate: str) -> list[str]:
    deed("began", job.id)
    wait_for(gate)
    deed("asks", job.id)
    return [job.step("paid", _worked, job.id, 1)]


# Badly behaved


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Odd:
    def __repr__(self) -> str:
        return "Odd()"


def _misbehave(kind: str) -> Any:
    match kind:
        case "set":
            return {"of": {1, b"2"}}
        case "object":
            return [Odd()]
        case "nan":
            return float("nan")
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "cancelled":
            raise asyncio.CancelledError
        case "stop iteration":
            raise StopIteration(7)
        case "unspeakable":
            raise Unspeakable
        case "silent":
            raise ValueError
        case "unstorable":
            raise ValueError("half of \ud800, and \0")
        case "huge":
            raise ValueError("a-" * 1_000_000)
        case "final":
            raise FinalError("forbidden")
        case "bad retry":
            return Retry("soon")  # type: ignore[arg-type]
        case "bad partial":
            return Partial(["a"] * 5, delivered=5, of=4)
        case "secret":
            raise ConnectionError("401 for https://ana:hunter2hunter2@api.example/v1 with api_key=sk-abcdefgh12345678")
        case "thread":
            threading.Thread(target=time.sleep, args=(1_000,), name="left behind").start()
            return "left a thread"
        case "fork":
            if os.fork() == 0:
                deed("child", os.getpid())
                return "from the child"
            return "from the parent"
    raise AssertionError(kind)


@tool(cost=7)
async def misbehaves(job: JobContext, kind: str) -> Any:
    return _misbehave(kind)


@tool()
async def logs_secrets(job: JobContext) -> None:
    url = "https://api.example.com/?token=hunter2"
    await job.log(f"called {url}", password="hunter2", nested={"api_key": "hunter2", "n": 1}, size=7)  # noqa: S106


@tool(cost=7)
def misbehaves_in_thread(job: Any, kind: str) -> Any:
    return _misbehave(kind)


@tool(cost=7)
async def two_things(job: JobContext, by: str) -> Any:
    await job.step("thing", _worked, job.id, 1)
    if by == "arguments":
        return await job.step("thing", _worked, job.id, 2)
    return await job.step("thing", deed, job.id)


@tool(cost=7)
async def tells(job: JobContext, private: str) -> str:
    """Says things in the log; the fields' names are those that a log line has already."""
    await job.log("telling", name="cat", message="inner", args=3, event="x", job="another")
    logging.getLogger("application").warning("told for %s", job.id)
    return private


@tool(cost=7)
async def changed(job: JobContext, size: int, quality: str) -> int:
    """Yesterday it took a name."""
    return size


# Several jobs in one call


@dataclass(frozen=True)
class Picture:
    number: int
    fails: bool = False


@tool(cost=2, jobs_per_call=16, linger_ms=50)
async def pictures(jobs: list[JobContext], payloads: list[Picture]) -> list[Any]:
    deed("call", "pictures", *(picture.number for picture in payloads))
    return [ValueError(f"no {picture.number}") if picture.fails else picture.number * 10 for picture in payloads]


@tool(cost=2, jobs_per_call=16, linger_ms=50)
def pictures_in_thread(jobs: list[Any], payloads: list[Picture]) -> list[Any]:
    deed("call", "pictures_in_thread", *(picture.number for picture in payloads))
    return [ValueError(f"no {picture.number}") if picture.fails else picture.number * 10 for picture in payloads]
