"""The application that is attacked: the paid workload of the honest accounts, and tools that make much of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from ficha import Ficha, Plan, Pool

from ..databases import Kind
from ..endurance.application import migrate
from ..ficha_side import PLENTY, POOL
from ..workload import ACCOUNTS, COST, RESULT, account

TIGHT: Final = "mallory"
"""The hostile account, on a plan that refuses nearly all that it asks for."""
RICH: Final = "mallory-rich"
"""The same on a plan without limits, with credits to spend."""
LISTED: Final = 1_000
"""Jobs that it has, each with a payload of so many characters."""
LISTED_CHARS: Final = 2_000


def application(url: str | None = None) -> Ficha:
    pro = Plan("pro", priority=10, max_running=PLENTY, max_active=PLENTY, per_hour=PLENTY, daily_limit=PLENTY)
    tight = Plan("tight", priority=50, max_running=1, max_active=5, per_hour=10)
    made = Ficha(url, plans=[pro, tight], pools=[Pool(POOL)])

    @made.tool(pool=POOL, cost=COST)
    async def upscale(job: Any, image: str, scale: int = 2) -> dict[str, Any]:
        return RESULT

    @made.tool(pool=POOL, cost=lambda n: n, items="n", max_items=4)
    async def draw(job: Any, n: int, prompt: str = "") -> dict[str, Any]:
        return RESULT

    @made.tool(pool=POOL, cost=lambda texts: sum(map(len, texts)), items="texts", max_items=1)
    async def embed(job: Any, texts: list[str]) -> dict[str, Any]:
        return RESULT

    @made.tool(pool=POOL)
    async def note(job: Any, **fields: Any) -> dict[str, Any]:
        return RESULT

    return made


app: Final = application()
"""What the server under attack loads; its option says on which database."""


@dataclass(frozen=True)
class Prey:
    """A database with honest accounts, `keys[n]` being of `account(n)`, and the keys of the hostile ones."""

    url: str
    keys: list[str]
    hostile: dict[str, str]


@asynccontextmanager
async def opened(kind: Kind) -> AsyncIterator[Prey]:
    async with kind.fresh() as url:
        await migrate(url)
        async with application(url) as behind:
            names = [account(number) for number in range(ACCOUNTS)]
            await asyncio.gather(*(behind.open_account(name, plan="pro", credits=PLENTY) for name in (*names, RICH)))
            await behind.open_account(TIGHT, plan="tight", credits=PLENTY)
            made = await asyncio.gather(*(behind.create_api_key(name, account=name) for name in (*names, RICH, TIGHT)))
            long = ("note", {"text": "x" * LISTED_CHARS})
            await behind.submit_batch([long] * LISTED, account=RICH)
        secrets = [one.secret for one in made]
        yield Prey(url, secrets[:-2], {RICH: secrets[-2], TIGHT: secrets[-1]})
