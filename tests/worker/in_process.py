"""A worker within the test's own process: the application, one job run to its end, and waiting for an end."""

import asyncio
from typing import Any

from ficha import Ficha, Pool


def app_on(url: str = "memory:", **settings: Any) -> Ficha:
    """An application without tools on the real clock, which sweeps often enough that no test waits for it."""
    return Ficha(url, **{"pools": [Pool("gpu", slots=3)], "sweep_s": 0.02} | settings)


async def ended(app: Ficha, job_id: str) -> Any:
    """The job, once it has ended; each look follows an event, not a guess at the time."""
    async with asyncio.timeout(20):
        while (job := await app.job(job_id)).finished_at is None:
            await app.wait_for_work("default", 0.01)
    return job


async def run_one(app: Ficha, tool: str, payload: dict[str, Any] | None = None) -> Any:
    """The job that a burst of work made of one submit."""
    await app.open_account("ana", credits=100)
    receipt = await app.submit(tool, payload or {}, account="ana")
    async with asyncio.timeout(20):
        assert await app.run_worker(burst=True) >= 1
    return await app.job(receipt.job_id)
