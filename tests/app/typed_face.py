"""What a type checker sees of handlers, steps and tools. `make check` reads it, and nothing runs it.

A line with `type: ignore` must be an error: one that is none is reported.
"""

from __future__ import annotations

from datetime import date
from typing import assert_type

from ficha import DeclaredTool, Ficha, JobContext, Quote, Receipt, ThreadJobContext, ToolSubmit

app = Ficha("memory:")


class Offer:
    price: int


async def quote(shop: str, *, currency: str = "EUR") -> Offer:
    return Offer()


def count(words: list[str]) -> int:
    return len(words)


async def steps(job: JobContext) -> None:
    assert_type(await job.step("quote", quote, "lamps", currency="USD"), Offer)
    assert_type(await job.step("count", count, ["a"]), int)
    assert_type(await job.step("later", lambda: quote("lamps")), Offer)
    assert_type(await job.step("length", len, "lamps"), int)
    await job.step("quote", quote, 5)  # type: ignore[call-overload]
    await job.step("quote", quote)  # type: ignore[call-overload]
    await job.step("count", count, words=["a"], more=1)  # type: ignore[call-overload]


def plain_steps(job: ThreadJobContext) -> None:
    assert_type(job.step("quote", quote, "lamps"), Offer)
    assert_type(job.step("count", count, ["a"]), int)
    job.step("count", count, "a")  # type: ignore[call-overload]


@app.tool
async def upscale(job: JobContext, image: str, scale: int = 2) -> dict[str, str]:
    return {}


@app.tool(cost=5, timeout=60)
def remind(job: ThreadJobContext, day: date) -> str:
    return ""


async def tools(job: JobContext, thread_job: ThreadJobContext) -> None:
    assert_type(await upscale(job, "cat.png", scale=3), dict[str, str])
    assert_type(remind(thread_job, date(2031, 5, 6)), str)
    assert_type(await upscale.submit(image="cat.png", account="ana"), Receipt)
    assert_type(await upscale.options(account="ana").submit("cat.png", scale=3), Receipt)
    assert_type(await remind.options(account="ana", idempotency_key="k").quote(day=date(2031, 5, 6)), Quote)
    remind(thread_job, "today")  # type: ignore[arg-type]
    await upscale.options(account="ana").submit(image=5)  # type: ignore[arg-type]
    await upscale.options(account="ana").submit()  # type: ignore[call-arg]
    upscale.options(image="cat.png")  # type: ignore[call-arg]


def kept(tool: DeclaredTool[ThreadJobContext, [date], str]) -> ToolSubmit[[date]]:
    return tool.options(account="ana")
