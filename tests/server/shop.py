"""The application that the tests of the server serve: the shop, with handlers that do a little."""

from ficha import Ficha, File, FinalError, JobContext
from tests.support.shop import PLANS, POOLS, declare

app = declare(Ficha(plans=PLANS, pools=POOLS, sweep_s=0.2, webhooks=True, allow_addresses=["127.0.0.0/8"]))


@app.tool(pool="cpu", cost=3)
async def paint(job: JobContext, prompt: str, strokes: int = 2) -> dict:
    """Paints a picture stroke by stroke, for those who watch."""
    for stroke in range(strokes):
        await job.progress(100 * (stroke + 1) // (strokes + 1))
        await job.partial({"strokes": stroke + 1})
    return {"picture": prompt}


@app.tool(pool="cpu", audience="service")
async def settle(job: JobContext) -> None:
    """For the application alone."""


@app.tool(pool="cpu", cost=1, plans=["pro", "growth"])
async def restyle(job: JobContext) -> None:
    """For some plans."""


@app.tool(pool="cpu", cost=1)
async def copy(job: JobContext, picture: File) -> dict:
    """Makes a copy of a picture."""
    return {"picture": await job.save(f"copy of {picture.name}", await picture.read())}


@app.tool(pool="cpu", cost=4)
async def broken(job: JobContext) -> None:
    raise FinalError("the provider said no")


@app.tool(pool="cpu", cost=2)
async def unlucky(job: JobContext) -> None:
    """Fails so that it could be tried again: a dead letter."""
    raise RuntimeError("out of luck")
