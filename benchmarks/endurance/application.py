"""The application that every measure of endurance runs: the paid workload, and one account that is held to a few jobs
at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ficha import Ficha, Plan, Pool, Refused, SubmitRequest
from ficha.core.commands import OpenAccount
from ficha.core.outcomes import AccountChanged
from ficha.store.postgres import PostgresStore

from ..ficha_side import PLENTY, POOL
from ..peer import Wrong
from ..workload import COST, RESULT, payload

BIG: Final = "big"
"""The account that owns most of a queue."""
BIG_AT_ONCE: Final = 10


def application(url: str, **settings: Any) -> Ficha:
    # Limits that nobody reaches: they are looked at with every submit, and refuse none.
    free = {"priority": 10, "max_active": PLENTY, "per_hour": PLENTY, "daily_limit": PLENTY}
    plans = [Plan("pro", max_running=PLENTY, **free), Plan("big", max_running=BIG_AT_ONCE, **free)]
    app = Ficha(url, plans=plans, pools=[Pool(POOL)], **settings)

    @app.tool(pool=POOL, cost=COST)
    async def upscale(job: Any, image: str, scale: int = 2) -> dict[str, Any]:
        return RESULT

    return app


async def migrate(url: str) -> None:
    if url.startswith("postgresql:"):
        await PostgresStore(url).migrate()


async def open_accounts(app: Ficha, count: int) -> None:
    """`account-0` and so on, and the big one."""
    commands = [OpenAccount(owner(number, count), "pro", PLENTY) for number in range(count)]
    for outcome in await app.engine.call_many([*commands, OpenAccount(BIG, "big", PLENTY)]):
        if not isinstance(outcome, AccountChanged):
            raise Wrong(f"an account could not be opened: {outcome}")


def owner(number: int, accounts: int) -> str:
    return f"account-{number % accounts}"


def request(account: str, key: str) -> SubmitRequest:
    return SubmitRequest(tool="upscale", payload=payload(0), account=account, idempotency_key=key)


def none_refused(answers: Sequence[object]) -> None:
    for answer in answers:
        if isinstance(answer, Refused):
            raise answer
