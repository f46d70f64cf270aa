"""The process that asks: submits at a steady rate whatever becomes of them, or callers who each ask as soon as they are
answered."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

import uvloop

from ..peer import Wrong
from ..processes import serve
from ..workload import ACCOUNTS, payload
from .application import TOOL
from .wire import HEAD_END, Answer, Lost, Wire, connect, request

LATE_S: Final = 30.0
"""What is not answered so long after the last one was due has failed."""
SHOWN: Final = 500
CREATED: Final = 201


class Load:
    """All that one server is asked; keys are by the number of their account."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._numbers = count()
        self._keys: list[str] = []
        self._routes: dict[str, tuple[int, Callable[[int], bytes]]] = {}

    async def prepare(self, keys: list[str], jobs: list[str]) -> int:
        """What is needed to ask: keys, and jobs to look at, whose present state is read first."""
        self._keys = keys
        looks = [await self._look(number, job) for number, job in enumerate(jobs)]
        tools = [request("/api/tools", key) for key in keys]
        noop = request("/healthz")
        # What each route is to answer, and the request of a caller, by its number.
        self._routes = {
            "no-op": (200, lambda _: noop),
            "guarded": (200, lambda caller: tools[caller]),
            "look": (304, lambda caller: looks[caller % len(looks)]),
            "submit": (CREATED, lambda _: self._submit(next(self._numbers))),
        }
        return len(looks)

    async def _look(self, number: int, job: str) -> bytes:
        """A question whether a job is still as it is now."""
        path, key = f"/api/jobs/{job}", self._keys[number % ACCOUNTS]
        wire = await connect(self._port, Wire)
        answer = await wire.ask(request(path, key))
        wire.close()
        if answer.status != 200:
            raise Wrong(f"a job could not be looked at: {_shown(answer)}")
        head = answer.text.partition(HEAD_END)[0].decode("latin-1").splitlines()
        tag = next(line.partition(": ")[2] for line in head if line.lower().startswith("etag: "))
        return request(path, key, if_none_match=tag)

    def _submit(self, number: int) -> bytes:
        body = json.dumps({"tool": TOOL, "payload": payload(number)}).encode()
        return request("/api/jobs", self._keys[number % ACCOUNTS], body, idempotency_key=f"key-{number}")

    async def submit(self, rate: int, seconds: float, lanes: int) -> dict[str, Any]:
        """Submits that are due at fixed times. Each one's time counts from when it was due, whatever held it up."""
        total = round(rate * seconds)
        due: asyncio.Queue[tuple[float, int] | None] = asyncio.Queue()
        took_ms: list[float] = []
        created: Counter[int] = Counter()
        failures: list[str] = []

        async def lane() -> None:
            wire = await connect(self._port, Wire)
            while (one := await due.get()) is not None:
                due_at, number = one
                try:
                    answer = await wire.ask(self._submit(number))
                except Lost as error:
                    failures.append(f"connection lost: {error}")
                    wire = await connect(self._port, Wire)
                    continue
                took_ms.append((time.monotonic() - due_at) * 1_000)
                if answer.status == CREATED:
                    created[number % ACCOUNTS] += 1
                else:
                    failures.append(_shown(answer))
            wire.close()

        begins_at = time.monotonic()
        tasks = [asyncio.create_task(lane()) for _ in range(lanes)]
        for turn in range(total):
            due_at = begins_at + turn / rate
            if (left_s := due_at - time.monotonic()) > 0:
                # The loop counts in milliseconds: a little later rather than a little too early.
                await asyncio.sleep(left_s + 0.0005)
            due.put_nowait((due_at, next(self._numbers)))
        for _ in tasks:
            due.put_nowait(None)
        _, unanswered = await asyncio.wait(tasks, timeout=LATE_S)
        for task in unanswered:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=bool(unanswered))
        ended_at = time.monotonic()
        return {
            "asked": total,
            "took_s": max(seconds, ended_at - begins_at),
            "took_ms": took_ms,
            "created": [created[number] for number in range(ACCOUNTS)],
            "failed": total - created.total(),
            "failures": failures[:5],
        }

    async def loop(self, route: str, seconds: float, callers: int) -> dict[str, Any]:
        """Callers who ask one route, one request after the other each, until the time is up."""
        expected, asked = self._routes[route]
        wires = [await connect(self._port, Wire) for _ in range(callers)]
        took_ms: list[float] = []
        begins_at, used_s = time.monotonic(), time.process_time()
        ends_at = begins_at + seconds

        async def caller(number: int, wire: Wire) -> None:
            while (asked_at := time.monotonic()) < ends_at:
                answer = await wire.ask(asked(number))
                took_ms.append((time.monotonic() - asked_at) * 1_000)
                if answer.status != expected:
                    raise Wrong(f"{route} was to be answered with {expected}: {_shown(answer)}")

        await _all(caller(number, wire) for number, wire in enumerate(wires))
        found = {"took_s": time.monotonic() - begins_at, "cpu_s": time.process_time() - used_s, "took_ms": took_ms}
        for wire in wires:
            wire.close()
        return found


async def _all(callers: Any) -> None:
    async with asyncio.TaskGroup() as tasks:
        for caller in callers:
            tasks.create_task(caller)


def _shown(answer: Answer) -> str:
    head, _, body = answer.text.partition(HEAD_END)
    return f"{head.splitlines()[0].decode('latin-1')}: {body[:SHOWN].decode('utf-8', 'replace')}"


async def main(arguments: Sequence[str]) -> None:
    load = Load(int(arguments[0]))
    await serve(prepare=load.prepare, submit=load.submit, loop=load.loop)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1:]))
