"""Engines on one database, and the commands that the tests send to them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from ficha.core import commands as c
from ficha.core.dataset import State
from ficha.core.invariants import violations
from ficha.core.outcomes import Claimed, ClaimedJob, Outcome, Submitted
from ficha.core.policy import Plan, Policy
from ficha.core.records import Account, Job
from ficha.engine.committer import CommitLimits
from ficha.engine.engine import Engine
from ficha.ids import new_id
from ficha.store.base import GetState, Store
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from ficha.testing import ManualClock
from tests.engine.instrumented_store import InstrumentedStore
from tests.support.new_jobs import new_job as made_job

T = TypeVar("T")

COST = 5
CREDITS = 1_000
PLANS = (
    Plan("pro", priority=10),
    Plan("free", priority=50),
    Plan("one", priority=50, max_running=1),
    Plan("ageing", priority=50, ageing_s=10),
    Plan("quota", priority=50, max_active=2),
)
# Batches are how these tests make many jobs, which then stand in line as they were made.
POLICY = Policy(plans={plan.name: plan for plan in PLANS}, batch_spacing_ms=0)
QUICK = CommitLimits(backoff_s=0.000_1, backoff_max_s=0.001)
"""Pauses that no test has to wait for."""


class StoreSetup:
    """A database, and the engines that work on it, each over a watched store of its own."""

    def __init__(
        self,
        store: Store,
        clock: ManualClock,
        stack: AsyncExitStack,
        another: Callable[[], Store] | None = None,
    ) -> None:
        self.store = store
        """For looking at the rows behind the engines' backs."""
        self.clock = clock
        self._stack = stack
        self._another = another

    @classmethod
    async def on_sqlite(cls, path: Path, clock: ManualClock, stack: AsyncExitStack) -> StoreSetup:
        store = SqliteStore(path, clock=clock)
        await store.migrate()
        await store.open()
        stack.push_async_callback(store.close)
        return cls(store, clock, stack, lambda: SqliteStore(path, clock=clock))

    @classmethod
    async def on_postgresql(cls, url: str, clock: ManualClock, stack: AsyncExitStack) -> StoreSetup:
        store = PostgresStore(url, clock=clock)
        await store.open()
        stack.push_async_callback(store.close)
        return cls(store, clock, stack, lambda: PostgresStore(url, clock=clock))

    async def watched(self, *, committers: int | None = None) -> InstrumentedStore:
        """A store on the database, as another process would have it; a memory store is shared instead."""
        if self._another is None:
            return InstrumentedStore(self.store, committers=committers)
        store = self._another()
        await store.open()
        self._stack.push_async_callback(store.close)
        return InstrumentedStore(store, committers=committers)

    async def engine(
        self,
        store: InstrumentedStore | None = None,
        *,
        limits: CommitLimits = QUICK,
        policy: Policy = POLICY,
        sweep: bool = False,
        sweep_s: float = float("inf"),
    ) -> Engine:
        """An engine that runs until the end of the test. It sweeps only when it is told to."""
        engine = Engine(store or await self.watched(), policy, limits, sweep_interval_s=sweep_s)
        await engine.start(sweep=sweep)
        self._stack.push_async_callback(engine.stop, 0.0)
        return engine

    # What is in the database

    async def state(self) -> State:
        return await self.store.read(GetState(texts=True))

    async def job(self, job_id: str) -> Job:
        return (await self.state()).jobs[job_id]

    async def account(self, account_id: str = "ana") -> Account:
        return (await self.state()).accounts[account_id]

    async def charges(self, account_id: str = "ana") -> int:
        """How many charges the account's ledger has."""
        return sum(e.kind == "charge" and e.account_id == account_id for e in (await self.state()).entries)

    async def check(self) -> None:
        """No invariant is broken."""
        assert violations(await self.state()) == []


async def opened(engine: Engine, *accounts: str, plan: str = "pro", credits: int = CREDITS) -> Engine:
    """The engine, with a pool without limits and these accounts."""
    await one(engine, c.DeclarePool("gpu", None))
    for account in accounts or ("ana",):
        await one(engine, c.OpenAccount(account, plan, credits))
    return engine


def new_job(**fields: Any) -> c.NewJob:
    usual = {"tool": "draw", "pool": "gpu", "payload": "{}", "cost": COST}
    return made_job(fields.pop("id", None) or new_id(), **usual | fields)


def submit(account: str = "ana", *, jobs: int = 1, job: dict[str, Any] | None = None, **fields: Any) -> c.Submit:
    batch = {"batch_id": new_id()} if jobs > 1 else {}
    made = tuple(new_job(**(job or {})) for _ in range(jobs))
    return c.Submit(**{"account_id": account, "jobs": made} | batch | fields)


async def one(engine: Engine, command: c.Command, kind: type[T] | None = None) -> Any:
    """The outcome of a command that is not refused."""
    return expected(await engine.call(command), kind)


def expected(outcome: Outcome, kind: type[T] | None = None) -> Any:
    assert not hasattr(outcome, "code"), outcome
    assert kind is None or isinstance(outcome, kind), outcome
    return outcome


async def submitted(engine: Engine, account: str = "ana", **fields: Any) -> str:
    """The id of a new job."""
    return (await one(engine, submit(account, **fields), Submitted)).job_id


async def claimed(engine: Engine, *, limit: int = 1, pool: str = "gpu", worker: str = "w1") -> list[ClaimedJob]:
    return list((await one(engine, c.Claim(worker, (pool,), limit), Claimed)).leases)
