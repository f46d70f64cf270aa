"""Which act is bound by which limit: the table of docs/concepts.md, walked cell by cell on every store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from ficha import Ficha, JobContext, Limits, Plan, Refused, SubmitRequest
from ficha.core.commands import Command
from ficha.core.rules import RULES
from ficha.requests import BatchItem, BatchRequest
from ficha.testing import FakeTransaction
from tests.support.refusal_codes import SOURCE
from tests.support.shop import World

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts.md"
COST = 2
NOTE = "x" * 40


def table() -> dict[str, dict[str, str]]:
    """The documented cells, by act and limit."""
    section = CONCEPTS.read_text().partition("### What binds which act\n")[2]
    rows = [line.strip("|").split("|") for line in section.split("\n\n")[1].splitlines()]
    limits = [cell.strip() for cell in rows[0][1:]]
    return {row[0].strip(): dict(zip(limits, map(str.strip, row[1:]), strict=True)) for row in rows[2:]}


def declare(app: Ficha) -> None:
    options: dict[str, Any] = {"pool": "cpu", "cost": COST, "items": "n", "max_items": 1}

    @app.tool(**options)
    async def work(job: JobContext, n: int = 1, note: str = "") -> None: ...

    @app.tool(**options, plans=["pro"])
    async def work_for_pro(job: JobContext, n: int = 1, note: str = "") -> None: ...

    @app.tool(**options, audience="service")
    async def work_for_service(job: JobContext, n: int = 1, note: str = "") -> None: ...


class Cell:
    """An account that is about to act, and what it acts with."""

    def __init__(self, app: Ficha, url: str | None, account: str, limit: Limit) -> None:
        self.app, self.url, self.account, self.limit = app, url, account, limit
        self.tool, self.jobs = limit.tool, limit.jobs
        self.payload = {"note": NOTE}
        self.batch = self.reservation = ""
        self.dead: list[str] = []

    async def prepare(self) -> None:
        """All that an act may stand on, while the account has no limit; a worker fails the jobs of the batch."""
        await self.app.open_account(self.account, plan="open", credits=100)
        items = [(self.tool, self.payload) for _ in range(self.jobs)]
        receipt = await self.app.submit_batch(items, account=self.account)
        assert receipt.batch_id is not None
        self.batch = receipt.batch_id
        self.reservation = (await self.app.reserve(self.account)).id

    async def come_to_the_limit(self, *, with_active: bool, with_reservation: bool) -> None:
        app, account, limit = self.app, self.account, self.limit
        self.dead = [job.id for job in (await app.jobs(batch=self.batch)).items]
        if with_active:
            await app.submit("anything", account=account)
        if not with_reservation:
            await app.release(self.reservation)
        await app.change_plan(account, limit.plan.name)
        await app.adjust(account, limit.balance - (await app.account(account)).balance, reason="the test")

    @property
    def request(self) -> SubmitRequest:
        """One submit, which the tool splits if there is to be more than one job."""
        return SubmitRequest(tool=self.tool, payload=self.payload | {"n": self.jobs}, account=self.account)

    @property
    def batch_request(self) -> BatchRequest:
        items = [BatchItem(tool=self.tool, payload=self.payload)] * self.jobs
        return BatchRequest(items=items, account=self.account)

    async def within(self) -> None:
        async with transaction(self.url) as connection:
            await self.app.submit(self.tool, self.request.payload, account=self.account, connection=connection)

    async def many(self) -> None:
        for answer in await self.app.submit_many([self.request]):
            if isinstance(answer, Refused):
                raise answer

    async def resume(self, account: str | None) -> None:
        resumed = await self.app.resume_batch(self.batch, account=account)
        if resumed.refusal is not None:
            raise Refused.of(resumed.refusal)
        assert resumed.resumed == self.jobs

    async def requeue(self) -> None:
        for job_id in self.dead:
            await self.app.requeue(job_id)


@asynccontextmanager
async def transaction(url: str | None) -> AsyncIterator[Any]:
    """A transaction of the caller's own; only PostgreSQL has real ones."""
    if url is None:
        async with FakeTransaction() as fake:
            yield fake
        return
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


ACTS: dict[str, Callable[[Cell], Awaitable[Any]]] = {
    "submit by a user": lambda cell: cell.app.submit_request(cell.request, by_user=True),
    "submit by the application": lambda cell: cell.app.submit_request(cell.request),
    "submit in the caller's transaction": Cell.within,
    "many submits in one call": Cell.many,
    "submit that joins a batch": lambda cell: cell.app.submit_request(replace(cell.request, batch=cell.batch)),
    "submit with a reservation": lambda cell: cell.app.submit_request(
        replace(cell.request, reservation=cell.reservation)
    ),
    "batch by a user": lambda cell: cell.app.submit_batch_request(cell.batch_request, by_user=True),
    "batch by the application": lambda cell: cell.app.submit_batch_request(cell.batch_request),
    "resume by a user": lambda cell: cell.resume(cell.account),
    "resume by an operator": lambda cell: cell.resume(None),
    "requeue by an operator": Cell.requeue,
}

NO_MORE = Limits(payload_bytes=len(NOTE), batch_jobs=1)


class Limit:
    """A limit, and how an account comes to be at it.

    plan: which it is moved to. balance: what it is left with. tool: what is asked for. jobs: how many.
    limits: the application's at that time.
    """

    def __init__(
        self,
        *codes: str,
        plan: Plan = Plan("open"),  # noqa: B008 (it is frozen)
        balance: int = 50,
        tool: str = "work",
        jobs: int = 1,
        limits: Limits | None = None,
    ) -> None:
        self.codes, self.plan, self.balance, self.tool, self.jobs = codes, plan, balance, tool, jobs
        self.limits = limits or Limits()


LIMITS: dict[str, list[Limit]] = {
    "balance": [Limit("INSUFFICIENT_CREDITS", balance=COST - 1)],
    "`max_active`": [
        Limit("ACTIVE_JOB_EXISTS", "QUOTA_EXCEEDED", plan=Plan("one", max_active=1)),
        # Of a request that is split into more parts than are one job.
        Limit("QUOTA_EXCEEDED", plan=Plan("two", max_active=2), jobs=2, limits=Limits(request_parts=1)),
    ],
    "`per_hour`": [Limit("RATE_LIMITED", plan=Plan("hourly", per_hour=1))],
    "spending limits": [
        Limit("COST_LIMIT", plan=Plan("daily", daily_limit=1)),
        Limit("COST_LIMIT", plan=Plan("monthly-one", monthly_limit=1)),
    ],
    "a tool's `plans`": [Limit("FORBIDDEN", tool="work_for_pro")],
    "a tool's `audience`": [Limit("UNKNOWN_TOOL", tool="work_for_service")],
    "payload": [Limit("TOO_LARGE", limits=replace(NO_MORE, batch_jobs=10))],
    "jobs at once": [
        Limit("TOO_LARGE", jobs=2, limits=replace(NO_MORE, payload_bytes=1_000)),
        Limit("TOO_LARGE", jobs=2, limits=Limits(batch_bytes=2 * len(NOTE))),
    ],
}
OWN_PLANS = {limit.plan.name: limit.plan for limits in LIMITS.values() for limit in limits}


def test_the_table_names_every_act_and_every_limit() -> None:
    cells = table()
    assert list(cells) == list(ACTS)
    assert all(list(row) == list(LIMITS) for row in cells.values())


def test_every_command_that_makes_a_job_is_in_the_table() -> None:
    """A rule that adds jobs is one of these: an act of the table sends it."""
    files = {path.stem for path in (SOURCE / "core").glob("*.py") if "ws.add_job(" in path.read_text()}
    made: set[type[Command]] = {rule.command for rule in RULES.values() if rule.audit and _adds_jobs(rule.decide)}
    assert files == {"submit", "dead"}
    assert {command.__name__ for command in made} == {"Submit", "Requeue", "Resubmit"}


def _adds_jobs(decide: Callable[..., Any]) -> bool:
    return "Submitted" in str(decide.__annotations__["return"])


async def test_each_act_is_bound_by_what_the_table_says(world: World, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("shared_database") if world.kind == "postgresql" else None
    app = await world.open(declare, plans=[*OWN_PLANS.values(), Plan("pro")])
    walk = [
        (act, name, cell, limit) for act, row in table().items() for name, cell in row.items() for limit in LIMITS[name]
    ]
    acting = [Cell(app, url, f"account-{number}", limit) for number, (_, _, _, limit) in enumerate(walk)]
    await asyncio.gather(*(one.prepare() for one in acting))
    leases = await app.claim("cpu", limit=1_000, worker="w1")
    await asyncio.gather(*(app.fail(lease, "it broke") for lease in leases))
    await asyncio.gather(
        *(
            one.come_to_the_limit(with_active=cell != "reserved", with_reservation=act == "submit with a reservation")
            for one, (act, _, cell, _) in zip(acting, walk, strict=True)
        )
    )
    wrong: list[str] = []
    for limits in dict.fromkeys(limit.limits for *_, limit in walk):
        app.limits = limits
        now = [(one, *words) for one, (*words, limit) in zip(acting, walk, strict=True) if limit.limits == limits]
        told = await asyncio.gather(*(walked(one, act, cell) for one, act, _, cell in now))
        wrong += [f"{act} / {name} ({cell}): {it}" for (_, act, name, cell), it in zip(now, told, strict=True) if it]
    assert wrong == []
    assert len(walk) > 100
    assert await app.verify() == []


async def walked(acting: Cell, act: str, cell: str) -> str | None:
    """What is not as the table says, if anything."""
    app, account, limit = acting.app, acting.account, acting.limit
    before = await jobs_of(app, account)
    try:
        await ACTS[act](acting)
    except Refused as refused:
        if cell != "yes" or refused.code not in limit.codes:
            return f"refused with {refused.code}: {refused.message}"
        # A resume goes as far as the limit allows; every other act is all or nothing.
        went_on = 1 if act == "resume by a user" and limit.plan.max_active == 2 else 0
        made = await jobs_of(app, account) - before
        return None if made == went_on else f"refused, and yet {made} jobs were made"
    made = await jobs_of(app, account) - before
    if cell == "yes":
        return f"not refused: {made} jobs were made"
    return None if made == limit.jobs else f"{made} jobs were made"


async def jobs_of(app: Ficha, account: str) -> int:
    return len((await app.jobs(account=account, limit=100)).items)
