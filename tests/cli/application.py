"""The application that the tests of the command use; it is copied into a test's folder as `app.py`."""

import asyncio

from ficha import Ficha, JobContext, Plan, Pool

go = asyncio.Event()
"""Set by the test that runs the worker: `draw` gets half-way, and waits for it."""

app = Ficha(plans=[Plan("free", max_running=2), Plan("pro", max_active=3)], pools=[Pool("gpu", slots=2)])


@app.tool(pool="gpu", cost=5)
async def draw(job: JobContext, prompt: str, size: int = 1) -> dict:
    await job.partial(["sketch"])
    await job.checkpoint("HALF [red]way", progress=50)
    await go.wait()
    return {"picture": f"{prompt} x{size}"}


@app.tool(cost=3)
def broken(job: JobContext) -> None:
    raise ValueError("the provider said\n\x1b[31mno")


@app.tool(cost=2, items="n", max_items=4)
async def images(job: JobContext, n: int = 1) -> list:
    return [0] * n
