"""The application that is attacked: the paid workload of the honest accounts, and tools that make much of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from ficha import Ficha, Plan, Pool

from ..databases import Kind
from ..endurance.application import migrate
from ..ficha_side import PLENTY, POOL
from ..workload import ACCOUNTS, COST, RESULT, account

TIGHT: Final = "tight"
"""A plan that refuses nearly all that is asked for."""
RICH: Final = "pro"
"""A plan without limits that matter."""
LISTED: Final = 1_000
"""Jobs that a hostile account on it has, each with a payload of so many characters."""
LISTED_CHARS: Final = 2_000


def application(url: str | None = None) -> Ficha:
    pro = Plan(RICH, priority=10, max_running=PLENTY, max_active=PLENTY, per_hour=PLENTY, daily_limit=PLENTY)
    tight = Plan(TIGHT, priority=50, max_running=1, max_active=5, per_hour=10)
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
    """A database with honest accounts, `keys[n]` being of `account(n)`, and the keys of the hostile ones, by attack."""

    url: str
    keys: list[str]
    hostile: dict[str, str]


@asynccontextmanager
async def opened(kind: Kind, attacks: Mapping[str, str]) -> AsyncIterator[Prey]:
    """The accounts, and a hostile one for each attack, on its plan: what one attack leaves behind is not another's."""
    async with kind.fresh() as url:
        await migrate(url)
        async with application(url) as behind:
            names = [account(number) for number in range(ACCOUNTS)]
            await asyncio.gather(*(behind.open_account(name, plan=RICH, credits=PLENTY) for name in names))
            for name, plan in attacks.items():
                await behind.open_account(name, plan=plan, credits=PLENTY)
                if plan == RICH:
                    await behind.submit_batch([("note", {"text": "x" * LISTED_CHARS})] * LISTED, account=name)
            made = await asyncio.gather(*(behind.create_api_key(name, account=name) for name in (*names, *attacks)))
        secrets = [one.secret for one in made]
        yield Prey(url, secrets[:ACCOUNTS], dict(zip(attacks, secrets[ACCOUNTS:], strict=True)))
