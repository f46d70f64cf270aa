"""The process whose calls are timed, one after the other, while its queue keeps its length."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable
from itertools import count
from typing import TypeVar

import uvloop

from ficha import Ficha, Lease

from ..ficha_side import POOL
from ..peer import Wrong
from ..processes import serve
from ..workload import RESULT, payload
from .application import BIG, application, none_refused, owner, request
from .idle_side import resident_mb

T = TypeVar("T")

WORKER = "worker"
MANY = 100
TICK_S = 0.005


class Caller:
    """Makes the calls and keeps how long each took, in milliseconds, by its name."""

    def __init__(self, app: Ficha, accounts: int) -> None:
        self._app = app
        self._accounts = accounts
        self._numbers = count()
        self._took: dict[str, list[float]] = defaultdict(list)
        self._late_ms = 0.0

    async def cycles(self, number: int) -> dict[str, list[float]]:
        """So many cycles; `stall` is the longest that the event loop did nothing else meanwhile, `memory` in MB."""
        self._took.clear()
        self._late_ms = 0.0
        watching = asyncio.create_task(self._watch())
        for _ in range(number):
            await self._cycle()
        watching.cancel()
        return {**self._took, "stall": [self._late_ms], "memory": [resident_mb()]}

    async def _watch(self) -> None:
        while True:
            due_at = time.perf_counter() + TICK_S
            await asyncio.sleep(TICK_S)
            self._late_ms = max(self._late_ms, (time.perf_counter() - due_at) * 1_000)

    async def _timed(self, name: str, call: Awaitable[T]) -> T:
        asked_at = time.perf_counter()
        answer = await call
        self._took[name].append((time.perf_counter() - asked_at) * 1_000)
        return answer

    async def _cycle(self) -> None:
        """Each call once, alone; then, untimed, what brings the queue back to where it was."""
        await self._timed("submit", self._submit(owner(next(self._numbers), self._accounts)))
        one = await self._timed("claim 1", self._app.claim(POOL, limit=1, worker=WORKER))
        await self._finish(one[0])
        many = await self._timed(f"claim {MANY}", self._app.claim(POOL, limit=MANY, worker=WORKER))
        if len(many) < MANY:
            raise Wrong(f"{len(many)} jobs were claimed instead of {MANY}")
        singles = {lease.account == BIG: lease for lease in reversed(many)}
        for lease in singles.values():
            await self._finish(lease)
        rest = [lease for lease in many if lease not in singles.values()]
        none_refused(await self._app.finish_many((lease, RESULT) for lease in rest))
        # The submit of this cycle stands for one that was claimed and is not the big account's.
        owners = [lease.account for lease in (*one, *many)]
        owners.remove(next(account for account in owners if account != BIG))
        if BIG in owners:
            await self._timed("submit, parked", self._submit(BIG))
            owners.remove(BIG)
        none_refused(await self._app.submit_many(request(account, self._key()) for account in owners))

    async def _submit(self, account: str) -> None:
        await self._app.submit("upscale", payload(0), account=account, idempotency_key=self._key())

    def _key(self) -> str:
        return f"timed-{next(self._numbers)}"

    async def _finish(self, lease: Lease) -> None:
        name = "finish, promotes" if lease.account == BIG else "finish"
        await self._timed(name, self._app.finish(lease, RESULT))


async def main(url: str, accounts: int) -> None:
    async with application(url) as app:
        await serve(cycles=Caller(app, accounts).cycles)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
