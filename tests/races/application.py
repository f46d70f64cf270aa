"""The application that every racer opens, and the test that sends them out."""

from __future__ import annotations

from typing import Any

from ficha import Ficha, JobContext, Plan, Pool

COST = 5
SLOTS = 3


def application(database: str, **settings: Any) -> Ficha:
    app = Ficha(
        database,
        plans=[
            Plan("open"),
            Plan("three", max_active=3),
            Plan("pro", priority=10, max_running=2, max_active=20),
            Plan("team", priority=30, max_running=4, max_active=40, ageing_s=0.1),
        ],
        pools=[Pool("gpu", slots=SLOTS)],
        **settings,
    )

    @app.tool(pool="gpu", cost=COST)
    async def draw(job: JobContext, number: int = 0) -> None: ...

    @app.tool(pool="gpu", cost=COST)
    async def paint(job: JobContext, number: int = 0) -> None: ...

    @app.tool(cost=COST)
    async def read(job: JobContext, number: int = 0) -> None: ...

    # The tools below are for the mixture, where time is short.

    @app.tool(pool="gpu", cost=3, timeout=1, attempts=2, backoff=0.01, max_wait=2)
    async def sketch(job: JobContext, number: int = 0) -> None: ...

    @app.tool(cost=lambda number: number, timeout=1, items="number", max_items=4)
    async def print_images(job: JobContext, number: int) -> None: ...

    @app.tool(cost=2, timeout=1, dedupe=True)
    async def embed(job: JobContext, number: int = 0) -> None: ...

    return app
