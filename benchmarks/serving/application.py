"""The application that is served: the paid workload, and a pool that nobody works for, whose jobs wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from ficha import Ficha, Plan, Pool, SubmitRequest

from ..databases import Kind
from ..endurance.application import migrate, none_refused
from ..ficha_side import PLENTY, POOL
from ..peer import Wrong
from ..workload import ACCOUNTS, COST, RESULT, account

LATER: Final = "later"
TOOL: Final = "upscale"
WAITS: Final = "keep"
STEP_S: Final = 0.1


def application(url: str | None = None) -> Ficha:
    # Limits that nobody reaches: they are looked at with every submit, and refuse none.
    plan = Plan("pro", priority=10, max_running=PLENTY, max_active=PLENTY, per_hour=PLENTY, daily_limit=PLENTY)
    made = Ficha(url, plans=[plan], pools=[Pool(POOL), Pool(LATER)])

    @made.tool(pool=POOL, cost=COST)
    async def upscale(job: Any, image: str, scale: int = 2) -> dict[str, Any]:
        return RESULT

    @made.tool(pool=LATER, cost=COST)
    async def keep(job: Any) -> dict[str, Any]:
        return RESULT

    return made


app: Final = application()
"""What the commands under measure load; their option says on which database."""


@dataclass(frozen=True)
class Shop:
    """A database with accounts, from behind: `keys[n]` is of `account(n)`, whose are `waiting[n]` and so on round.

    Nothing is open here while others work with the database, and takes part in what is measured.
    """

    url: str
    keys: list[str]
    waiting: list[str]

    async def release(self, per_s: int) -> None:
        """Finishes the jobs that wait, at a steady pace."""
        left = len(self.waiting)
        async with application(self.url) as behind:
            while left > 0:
                leases = await behind.claim(LATER, limit=max(1, round(per_s * STEP_S)), worker="release")
                if not leases:
                    raise Wrong(f"{left} of the jobs that were to wait are gone")
                none_refused(await behind.finish_many((lease, RESULT) for lease in leases))
                left -= len(leases)
                await asyncio.sleep(STEP_S)

    async def check(self, submitted: Sequence[int]) -> None:
        """Every invariant holds; every job is there and has ended, and each account has paid for its own: so many."""
        async with application(self.url) as behind:
            if problems := await behind.verify():
                raise Wrong(f"{len(problems)} invariants are broken, the first: {problems[0]}")
            for number, jobs in enumerate(submitted):
                found = await behind.account(account(number))
                if (found.submitted, found.active, found.balance) != (jobs, 0, PLENTY - jobs * COST):
                    raise Wrong(f"{jobs} jobs at {COST} left this behind: {found}")


@asynccontextmanager
async def opened(kind: Kind, waiting: int) -> AsyncIterator[Shop]:
    """A fresh database with accounts, an API key for each, and so many jobs that wait."""
    async with kind.fresh() as url:
        await migrate(url)
        async with application(url) as behind:
            names = [account(number) for number in range(ACCOUNTS)]
            await asyncio.gather(*(behind.open_account(name, plan="pro", credits=PLENTY) for name in names))
            made = await asyncio.gather(*(behind.create_api_key(name, account=name) for name in names))
            requests = [SubmitRequest(tool=WAITS, payload={}, account=account(number)) for number in range(waiting)]
            receipts = await behind.submit_many(requests)
            none_refused(receipts)
        yield Shop(url, [one.secret for one in made], [one.job_id for one in receipts])
