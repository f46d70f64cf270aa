"""The application that the tests of the face use: a shop that sells pictures by credits, on any database."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from msgspec.structs import replace

from ficha import Ficha, JobContext, Lease, Plan, Pool
from ficha.core.dataset import State
from ficha.core.records import FigureCursor, Rollup
from ficha.store.base import GetFigurePoint, GetState, ListFigures, Store
from ficha.testing import ManualClock

PLANS = (
    Plan("pro", priority=10, max_running=4, per_hour=999),
    Plan("growth", priority=20, max_running=3, per_hour=100),
    Plan("starter", priority=30, max_running=2, per_hour=50),
    Plan("free", priority=50, max_running=1, per_hour=10),
    Plan("single", max_active=1),
    Plan("trio", max_active=3),
    Plan("thrifty", daily_limit=20, daily_warning=10),
    Plan("monthly", monthly_limit=30, monthly_warning=25),
    Plan("tidy", file_bytes=1_000, max_files=2, storage_bytes=1_500),
    Plan("open"),
)
"""Those of the documents, and one for each further kind of limit."""

POOLS = (Pool("gpu", slots=3), Pool("cpu"))


def price(n: int, quality: str) -> int:
    return n * {"draft": 1, "fine": 3}[quality]


def declare(app: Ficha) -> Ficha:
    """The shop's tools. They are worked by hand in most tests, so there is little in them."""

    @app.tool(pool="gpu", cost=5)
    async def upscale(job: JobContext, image: str, scale: int = 2) -> dict:
        return {"image": f"{image} x{scale}"}

    @app.tool(pool="gpu", cost=20, priority=10)
    async def video(job: JobContext, seconds: int = 5) -> dict:
        return {"seconds": seconds}

    @app.tool(pool="gpu", cost=price, items="n", max_items=4)
    async def images(job: JobContext, n: int = 1, quality: str = "draft", prompt: str = "") -> list:
        return [prompt] * n

    @app.tool(pool="cpu", cost=lambda texts: 2 * len(texts), items="texts", max_items=4)
    async def embed_all(job: JobContext, texts: list[str]) -> list:
        return texts

    @app.tool(pool="cpu", cost=2, dedupe=True)
    async def embed(job: JobContext, text: str) -> int:
        return len(text)

    @app.tool(pool="cpu", cost=3, attempts=3, backoff=10)
    async def stubborn(job: JobContext) -> None: ...

    @app.tool(pool="cpu", cost=1, max_wait=5, timeout=60)
    async def hasty(job: JobContext) -> None: ...

    @app.tool(pool="cpu")
    async def anything(job: JobContext, **fields: Any) -> dict:
        return fields

    return app


def shop(url: str = "memory:", **settings: Any) -> Ficha:
    """The shop on a database, not yet open."""
    return declare(Ficha(url, **{"plans": PLANS, "pools": POOLS} | settings))


class World:
    """A fresh database of one kind on a clock that is moved by hand, and the applications that use it.

    The clock starts at the present, because what is only shown is shown by the process's own clock.
    """

    def __init__(self, kind: str, store: Callable[[ManualClock], Store], stack: AsyncExitStack) -> None:
        self.kind = kind
        self.clock = ManualClock(time.time_ns() // 1_000)
        self._store = store
        self._stack = stack

    async def open(self, prepare: Callable[[Ficha], object] = lambda app: None, **settings: Any) -> Ficha:
        """The shop, open until the end of the test. It sweeps only when it is told to. `prepare` declares more."""
        app = Ficha(
            store=self._store(self.clock),
            **{"plans": PLANS, "pools": POOLS, "sweep_by_itself": False, "sweep_s": 3_600} | settings,
        )
        prepare(declare(app))
        return await self._stack.enter_async_context(app)


async def state(app: Ficha) -> State:
    """Every row there is, but for the sums of figures: the sweeper's leader adds them up when it likes."""
    found = await app.engine.store.read(GetState(texts=True))
    kept = {name: one for name, one in found.keyed.items() if not isinstance(one, FigureCursor | Rollup)}
    return replace(found, keyed=kept)


async def add_up_figures(app: Ficha) -> None:
    """Sweeps until the figures of all commits are added up. One sweep may leave the last of them to the next: where
    another process adds up too, and on PostgreSQL where an older transaction may still take a lower number."""
    for _ in range(100):
        await app.sweep()
        cursor = (await app.engine.store.read(GetFigurePoint())).cursor
        after = 0 if cursor is None else cursor.number
        is_whole = cursor is None or not cursor.left_out
        if is_whole and not await app.engine.store.read(ListFigures(after, limit=1)):
            return
    raise AssertionError("the figures are not added up after 100 sweeps")


async def balance(app: Ficha, account: str = "ana") -> int:
    return (await app.account(account)).balance


async def claim_one(app: Ficha, pool: str = "gpu", worker: str = "w1") -> Lease:
    (lease,) = await app.claim(pool, worker=worker)
    return lease


async def ledger(app: Ficha, account: str = "ana") -> list[tuple[str, int, int]]:
    """The account's lines, oldest first: kind, amount, balance after."""
    page = await app.ledger(account, limit=1_000)
    return [(entry.kind, entry.amount, entry.balance_after) for entry in reversed(page.items)]


async def history(app: Ficha, job_id: str) -> list[str]:
    return [event.kind for event in await app.events(job=job_id)]
