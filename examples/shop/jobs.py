"""What the shop sells: plans, a pool, four tools, and what becomes of an order when its job has ended."""

import hashlib

from sqlalchemy import update
from tables import Order, sessions

from ficha import Accepted, Ficha, JobContext, JobView, Plan, Pool, ThreadJobContext

app = Ficha(  # FICHA_DATABASE_URL
    plans=[
        Plan("free", priority=50, max_running=1, per_hour=20),
        Plan("pro", priority=10, max_running=4),
    ],
    pools=[Pool("gpu", slots=2)],
)


async def paid_upscale(image: str, scale: int) -> str:
    """Stands for a call that costs money."""
    return f"{image}@{scale}x"


@app.tool(pool="gpu", cost=2, attempts=3, backoff=1)
async def upscale(job: JobContext, image: str, scale: int = 2) -> dict:
    result = await job.step("upscale", paid_upscale, image, scale)  # stored: a retry does not pay again
    await job.progress(90)
    return {"image": result}


@app.tool(pool="gpu", cost=1, dedupe=True)
async def caption(job: JobContext, image: str) -> dict:
    return {"caption": f"a picture called {image}"}


@app.tool(cost=lambda texts: len(texts))
def embed(job: ThreadJobContext, texts: list[str]) -> list:
    vectors = []
    for text in job.items("texts", texts):  # resumes after the last finished text
        vectors.append([byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:4]])
        job.progress(100 * len(vectors) // len(texts))
    return vectors


@app.tool(cost=20, timeout=3_600)
async def video(job: JobContext, prompt: str) -> Accepted:
    return Accepted(await job.step("order", order_video, prompt, job.id))  # the worker is free meanwhile


async def order_video(prompt: str, key: str) -> str:
    """Stands for the provider's API: it takes the work under a key, and calls back with its own reference."""
    return f"video-{key}"


@app.on("completed", "failed", "cancelled")
async def close_order(job: JobView) -> None:
    async with sessions.begin() as session:
        await session.execute(update(Order).where(Order.job_id == job.id).values(status=job.status))
