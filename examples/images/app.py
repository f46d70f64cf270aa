"""A shop for pictures: what a product that sells image work by credits looks like with Ficha.

`ficha dev` runs it, with a server and a worker in one process. README.md beside this file walks through it.
"""

import base64
import io
import os
from pathlib import Path
from typing import Annotated, Literal

from PIL import Image, ImageDraw
from pydantic import Field

from ficha import Ficha, JobContext, Plan, Pool, ThreadJobContext, UserError

PICTURES = Path(__file__).parent / "pictures"
PAID_CALLS = Path(os.environ.get("PAID_CALLS", "paid-calls.log"))
"""A line for each paid call: what shows that none is made twice."""

app = Ficha(
    plans=[
        Plan("free", priority=50, max_running=1, per_hour=10),
        Plan("starter", priority=30, max_running=2, per_hour=50),
        Plan("growth", priority=20, max_running=3, per_hour=100),
        Plan("pro", priority=10, max_running=4, per_hour=999),
    ],
    pools=[Pool("studio", slots=4)],
    first_job_boost=20,
)

Name = Literal["lighthouse"]


@app.tool(pool="studio", cost=lambda scale: 5 * (scale - 1), timeout=60)
def upscale(job: ThreadJobContext, picture: Name = "lighthouse", scale: Annotated[int, Field(ge=2, le=4)] = 2) -> dict:
    """Makes a picture larger. A plain function: it runs in a thread of its own."""
    small = Image.open(PICTURES / f"{picture}.png")
    job.checkpoint("OPENED", progress=20)
    large = small.resize((small.width * scale, small.height * scale), Image.Resampling.LANCZOS)
    job.checkpoint("SCALED", progress=80)
    return {"picture": data_url(large), "width": large.width, "height": large.height}


@app.tool(pool="studio", cost=1)
def thumbnail(
    job: ThreadJobContext, picture: Name = "lighthouse", size: Annotated[int, Field(ge=8, le=128)] = 32
) -> dict:
    """Makes a picture small. Cheap, so it is asked for many at a time: POST /api/batches."""
    small = Image.open(PICTURES / f"{picture}.png")
    small.thumbnail((size, size))
    return {"picture": data_url(small), "width": small.width, "height": small.height}


@app.tool(pool="studio", cost=lambda pages: 4 * pages, timeout=120, isolation="process", environment=["PAID_CALLS"])
def storybook(
    job: ThreadJobContext,
    title: Annotated[str, Field(max_length=60)] = "The lighthouse",
    pages: Annotated[int, Field(ge=1, le=8)] = 3,
    crash_at: Annotated[int, Field(ge=1, le=8)] | None = None,
) -> dict:
    """Paints a book, page by page. Each page is a paid call, and a step: a run that takes up where another crashed pays
    for none of them again. `crash_at` makes the first run crash before that page.

    It runs in a process of its own, so that a crash takes nothing else down.
    """
    is_first_run = job.resume_point is None
    if is_first_run:
        job.checkpoint("BEGUN")
    book = []
    for number in range(1, pages + 1):
        if number == crash_at and is_first_run:
            os._exit(1)
        book.append(job.step(f"page {number}", paint, title, number))
        job.partial({"pages": len(book)}, progress=100 * number // pages)
    return {"title": title, "pages": book}


@app.tool(pool="studio", cost=7, attempts=2, backoff=0.2)
async def flaky(job: JobContext, prompt: str = "a storm") -> dict:
    """Fails, both times that it is tried; then its credits come back."""
    raise UserError(f"the provider could not paint {prompt!r} (attempt {job.attempt})")


def paint(title: str, number: int) -> str:
    """Stands for a call that costs real money."""
    with PAID_CALLS.open("a", encoding="utf-8") as log:
        log.write(f"{title}, page {number}\n")
    page = Image.open(PICTURES / "lighthouse.png").convert("L").convert("RGB")
    ImageDraw.Draw(page).text((4, 76), str(number), fill=(255, 255, 255))
    return data_url(page)


def data_url(picture: Image.Image) -> str:
    """A small picture as text, which a browser shows as it is."""
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
