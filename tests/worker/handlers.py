"""Handlers that run in child processes. A child finds them by the name of this module, so they stand at its top."""

import asyncio
import contextlib
import datetime
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pydantic

from ficha import Accepted, Cancel, Ficha, FinalError, JobContext, LeaseLost, Partial, Retry

log = logging.getLogger("shop.handlers")


class Sketch(pydantic.BaseModel):
    title: str
    due: datetime.date


class Spoilt(Exception):
    """What the tools below declare as fatal."""


async def pid(job: JobContext) -> int:
    return os.getpid()


def plain_pid(job: JobContext) -> int:
    return os.getpid()


def typed(job: JobContext, sketch: Sketch, at: datetime.datetime, count: int = 2) -> dict[str, Any]:
    assert threading.current_thread() is not threading.main_thread()
    return {"title": sketch.title, "month": sketch.due.month, "hour": at.hour, "count": count, "id": job.id}


async def coroutine_steps(job: JobContext, store: Path) -> list[Any]:
    calls = [await job.step("seven", read, store, 7), *await asyncio.gather(*(job.step("eight", read, store, 8),) * 2)]
    await job.checkpoint("half", progress=50, data={"calls": calls})
    async for item in job.items("letters", "abc"):
        calls.append(item)
    await job.partial({"calls": calls}, progress=70)
    await job.progress(80)
    await job.log("drawn", colour="red")
    return calls


def plain_steps(job: Any, store: Path) -> list[Any]:
    calls = [job.step("seven", read, store, 7), job.step("eight", read, store, 8), job.step("eight", read, store, 8)]
    job.checkpoint("half", progress=50, data={"calls": calls})
    calls.extend(job.items("letters", "abc"))
    job.partial({"calls": calls}, progress=70)
    job.progress(80)
    job.log("drawn", colour="red")
    return calls


def read(store: Path, number: int) -> int:
    with store.open("a") as file:
        file.write(f"{number}\n")
    return number


def resumes(job: Any, store: Path) -> Any:
    """Dies on its first run, after a step; goes on from its checkpoint on the second."""
    job.step("paid", read, store, 1)
    if job.resume_point is None:
        job.checkpoint("paid", progress=40, data={"so": "far"})
        os.kill(os.getpid(), signal.SIGKILL)
    return [job.resume_point, job.resume_data]


calls: list[str] = []
"""What was called in this process."""


def paint(store: Path, number: int) -> Sketch:
    read(store, number)
    return Sketch(title="cat", due=datetime.date(2031, 5, 6))


async def typed_step(job: JobContext, store: Path) -> Sketch:
    """Fails after its first step, which is of the same type when it is resumed."""
    sketch = await job.step("sketch", paint, store, 1)
    assert sketch.due.month == 5
    if job.attempt == 1:
        raise TimeoutError("try again")
    return sketch


async def echoes(job: JobContext, numbers: list[Any]) -> Any:
    """Fails after it has stored the numbers, and returns them as it finds them when it is resumed."""
    if job.attempt == 1:
        await job.checkpoint("HALF", data=numbers)
    same = await job.step("same", lambda: numbers)
    if job.attempt == 1:
        raise TimeoutError("try again")
    return [numbers, job.payload["numbers"], job.resume_data, same]


def unstorable_step(job: Any, store: Path) -> None:
    job.step("pixels", lambda: [paint(store, 2), b"pixels"])


async def values(job: JobContext, kind: str) -> Any:
    return {
        "partial": Partial([1, 2, 3], 3, 4),
        "retry": Retry(5.0, "later"),
        "cancel": Cancel("no use"),
        "accepted": Accepted("ref-1"),
        "nothing": None,
    }[kind]


async def unfit(job: JobContext, kind: str) -> Any:
    match kind:
        case "set":
            return {"of": {1, b"2"}}
        case "object":
            return object()
        case "deep":
            deep: list[Any] = []
            for _ in range(5_000):
                deep = [deep]
            return deep
        case "large":
            return "x" * 70_000_000
        case "surrogate":
            return "\ud800"
        case _:
            return await job.step("odd", lambda: {b"x"})


async def raises(job: JobContext, kind: str) -> None:
    raise {
        "plain": ValueError("the provider said no"),
        "silent": KeyError(),
        "final": FinalError("the image is forbidden"),
        "fatal": Spoilt("it went off"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "cancelled": asyncio.CancelledError(),
        "surrogate": ValueError("half of \ud800"),
    }[kind]


def plain_raises(job: Any, kind: str) -> None:
    asyncio.run(raises(job, kind))


def dies(job: Any, how: str) -> None:
    match how:
        case "exit":
            os._exit(3)
        case "segfault":
            import ctypes

            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


def fills(job: Any, mb: int, keeps: bool = False) -> int:
    import numpy as np

    block = np.ones(mb * 2**20, dtype=np.uint8)
    if keeps:
        kept.append(block)
        while True:
            kept.append([[] for _ in range(100_000)])
    return int(block.sum() >> 20)


kept: list[Any] = []


def fills_once(job: Any, mb: int) -> Any:
    """Needs too much memory until it goes on from its checkpoint."""
    if not job.resume_point:
        job.checkpoint("HALF", progress=50, data={"so": "far"})
        fills(job, mb)
    return job.resume_data


async def sleeps(job: JobContext, file: Path) -> None:
    """Grows the file until it is stopped, and then says how."""
    try:
        while True:
            grow(file)
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        # What it does on its way out still reaches the job.
        await job.checkpoint("stopped", progress=1)
        file.with_suffix(".end").write_text(f"cancelled {job.cancelled}")
        raise


def loops(job: Any, file: Path) -> None:
    while not job.cancelled:
        grow(file)
        time.sleep(0.01)
    file.with_suffix(".end").write_text("cancelled")


def spins(job: Any, file: Path) -> None:
    """Keeps its core busy, and speaks meanwhile."""
    round = 0
    while not job.cancelled:
        sum(range(100_000))
        round += 1
        job.progress(round % 100)
        grow(file)
    file.with_suffix(".end").write_text("cancelled")


def ignores(job: Any, file: Path) -> None:
    while True:
        with contextlib.suppress(BaseException):
            grow(file)
            time.sleep(0.01)


async def blocks(job: JobContext, file: Path) -> None:
    """A coroutine that never lets go of its loop."""
    ignores(job, file)


def refuses_signals(job: Any, file: Path) -> None:
    """With a child of its own that does not listen either."""
    script = "import signal, sys, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
    script += "while True:\n    open(sys.argv[1], 'a').write('y'); time.sleep(0.01)"
    subprocess.Popen([sys.executable, "-c", script, str(file)])
    ignores(job, file)


def forks(job: Any, file: Path) -> str:
    """Dies while a fork of it holds on to all that it had open."""
    if os.fork() == 0:
        ignores(job, file)
    while not file.exists():
        time.sleep(0.01)
    os._exit(4)


async def comes_back_twice(job: JobContext) -> str:
    return "child" if os.fork() == 0 else "parent"


def pools(job: Any) -> list[int]:
    """Has processes of its own, which say so."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map(doubled, range(4))
        # Left to itself, the end of a pool kills its processes, and may wait for a lock that one of them held.
        pool.close()
        pool.join()
        return found


def doubled(number: int) -> int:
    log.warning("doubling %d", number)
    return 2 * number


def grow(file: Path) -> None:
    with file.open("a") as opened:
        opened.write("x")


def talks(job: Any) -> None:
    print("to stdout")
    log.info("to the log", extra={"colour": "red", "odd": object()})
    try:
        raise ValueError("on the way")
    except ValueError:
        log.exception("with a traceback")


def leaves_a_thread(job: Any, file: Path, wakes: bool = False) -> None:
    """The thread that the first run leaves behind speaks for it while the second runs."""

    def late() -> None:
        while not file.exists():
            time.sleep(0.01)
        try:
            job.checkpoint("too late", progress=99)
        except LeaseLost as lost:
            answered.write_text(str(lost))

    answered = file.with_suffix(".refused")
    if not wakes:
        threading.Thread(target=late, daemon=True).start()
        return
    file.touch()
    while not answered.exists():
        time.sleep(0.01)


def stale(job: Any) -> str:
    """Writes after the lease was lost; says what it got."""
    try:
        job.checkpoint("x")
    except LeaseLost as lost:
        return f"{lost.code} {lost.details}"
    return "written"


async def tries(job: JobContext, act: str, size: int = 0) -> Any:
    """Tries what a handler's process may do, and what it may not."""
    call: Any = job._lease_call
    connection = call.func.__self__._pipe._connection
    match act:
        case "environment":
            given = await asyncio.to_thread(Path("/proc/self/environ").read_text)
            return {**os.environ}, given.split("\0")
        case "finish" | "open_account" | "__class__":
            await call(act, "ana")
        case "result":
            return "x" * size
        case "step":
            return len(await job.step("s", "x".__mul__, size))
        case "log":
            log.warning("x" * size)
        case "frame":
            connection.sendall(size.to_bytes(4, "big") + b"x" * 1_000)
            await asyncio.sleep(60)
        case text:
            connection.sendall(len(text.encode()).to_bytes(4, "big") + text.encode())
            await asyncio.sleep(60)
    return act


def declare(app: Ficha, **options: Any) -> Ficha:
    """The handlers above that the tests run by a worker."""
    some = (pid, dies, resumes, coroutine_steps, plain_steps, sleeps, loops, ignores, raises, fills, fills_once, values)
    for handler in (*some, typed_step, unstorable_step, echoes):
        app.tool(isolation="process", cost=5, **options)(handler)
    return app


# Tools that are set up

_loads = 0


def loads() -> str:
    global _loads
    _loads += 1
    return "loaded"


def cannot_load() -> None:
    raise OSError("no device")


def dies_loading() -> None:
    os._exit(3)


def is_killed_loading() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def shows_setup(job: JobContext) -> list[Any]:
    return [job.setup, os.getpid(), _loads]


def shows_setup_in_thread(job: Any) -> list[Any]:
    return [job.setup, os.getpid(), _loads]


def loads_on(device: str) -> str:
    return f"model on {device}"


def _waits_for_others(folder: Path, others: int) -> None:
    """Returns when as many other processes as told are in this function too."""
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) <= others:
        time.sleep(0.01)


async def shows_device(job: JobContext, folder: Path, others: int) -> list[Any]:
    _waits_for_others(folder, others)
    return [job.device, job.setup]


def shows_device_in_thread(job: Any, folder: Path, others: int) -> list[Any]:
    _waits_for_others(folder, others)
    return [job.device, job.setup]


def says_lines(job: Any, lines: int) -> None:
    for number in range(lines):
        job.log(f"line {number}")
