"""Which way PostgreSQL takes for each statement that the store sends, and how much work that is.

The connection itself looks: before a statement runs, the very same prepared statement is explained and run inside a
transaction that is undone, under the settings that the store has made. So nothing that the store sends is left out, and
a plan that was made long ago and kept is seen as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
import pytest
from msgspec import Struct

from ficha.store.postgres import PostgresStore
from ficha.store.postgres.connections import BEGIN

GROWING: Final = frozenset(
    {"accounts", "jobs", "ready", "parked", "leases", "checkpoints", "steps", "entries", "events", "commits", "keys"}
    | {"reservations", "batches", "contents", "api_keys", "api_key_uses", "audit"}
    | {"files", "file_usage", "webhook_endpoints", "deliveries"}
)
"""Tables that have more rows the more jobs and accounts there are."""
CUSTOM_PLANS: Final = 5
"""How often PostgreSQL plans anew, for the values at hand, before it considers a plan to keep."""
UNPLANNED: Final = ("SAVEPOINT ", "RELEASE ", "ROLLBACK ", "SHOW ")
"""What a call inside the caller's transaction, or a migration, sends besides; it has no plan."""


class Work(Struct, frozen=True):
    """What one run of a statement did.

    rows: the most that any one step of the plan handled; what an index scan passes over counts too.
    pages: how many were looked at.
    whole: tables that were read from end to end.
    cost: the planner's own estimate, by which a plan is known again.
    """

    text: str
    rows: int
    pages: int
    whole: frozenset[str]
    cost: float


def work_of(text: str, plan: dict[str, Any]) -> Work:
    steps = _steps(plan)
    whole = {step["Relation Name"] for step in steps if step["Node Type"] == "Seq Scan" and step["Actual Loops"]}
    return Work(text, max(map(_handled, steps)), _pages(plan), GROWING & whole, plan["Total Cost"])


def _steps(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(step for part in plan.get("Plans", ()) for step in _steps(part))]


def _handled(step: dict[str, Any]) -> int:
    dropped = sum(value for name, value in step.items() if name.startswith("Rows Removed by"))
    return int(step["Actual Loops"] * (step["Actual Rows"] + dropped))


def _pages(plan: dict[str, Any]) -> int:
    """Whoever calls a step counts its pages too, except for writes that nobody asks for a result."""
    own = sum(plan.get(f"Shared {kind} Blocks", 0) for kind in ("Hit", "Read"))
    return int(max(own, sum(_pages(part) for part in plan.get("Plans", ()))))


class Watch:
    """What the connections have seen.

    sent: each text with the connection that it went to, and the values that it had last.
    costs: the same, with the estimate of its last plan.
    """

    def __init__(self) -> None:
        self.connections: list[Watched] = []
        self.sent: dict[tuple[Watched, str], tuple[Any, ...]] = {}
        self.costs: dict[tuple[Watched, str], float] = {}
        self.seen: list[Work] = []

    def take(self) -> list[Work]:
        """What was seen since it was last asked for."""
        seen, self.seen = self.seen, []
        return seen

    async def overlooked(self) -> list[str]:
        """Statements on our tables that a connection has prepared and that went past it unseen."""
        ours = re.compile(rf"\b({'|'.join(GROWING)})\b")
        found = []
        for connection in self.connections:
            if not connection.is_closed():
                texts = await connection.ask("SELECT array_agg(statement) FROM pg_prepared_statements")
                found += [text for text in texts if (connection, text) not in self.sent and ours.search(text)]
        return found


class Watched(asyncpg.Connection):
    """Looks at each statement before it runs."""

    watch: Watch

    async def _execute(self, query: str, args: Any, *rest: Any, **options: Any) -> Any:
        if query.startswith(UNPLANNED):
            return await super()._execute(query, args, *rest, **options)
        self.watch.sent[self, query] = tuple(args)
        execute = await self._prepared(query, args)
        await self._explain(query, execute)
        if args and await self.ask("SHOW plan_cache_mode") == "auto":
            # The run above had a plan for its values. Later ones may have one that was made for all values and kept.
            for _ in range(CUSTOM_PLANS):
                plan = await self._plan(execute)
            if plan["Total Cost"] != self.watch.costs[self, query]:
                await self._explain(query, execute)
        return await super()._execute(query, args, *rest, **options)

    async def plan(self, query: str, args: tuple[Any, ...]) -> float:
        """Plans a statement as for a commit group, without running it; what the planner thinks that it costs."""
        await self.execute(BEGIN)
        plan = await self._plan(await self._prepared(query, args))
        await self.execute("ROLLBACK")
        return float(plan["Total Cost"])

    async def _prepared(self, query: str, args: Any) -> str:
        """What runs this connection's own prepared statement with these values."""
        name = (await self._get_statement(query, None)).name
        types = await self.ask("SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = $1", name)
        quoted = ", ".join(f"quote_nullable(${n}::{kind})" for n, kind in enumerate(types, 1))
        values = await self.ask(f"SELECT ARRAY[{quoted}]::text[]", *args)
        return f"EXECUTE {name}({', '.join(values)})" if values else f"EXECUTE {name}"

    async def _plan(self, execute: str, options: str = "") -> Any:
        return json.loads(await self.ask(f"EXPLAIN ({options}FORMAT JSON) {execute}"))[0]["Plan"]

    async def _explain(self, query: str, execute: str) -> None:
        is_inside = self.is_in_transaction()
        await self.execute("SAVEPOINT look" if is_inside else "BEGIN")
        try:
            work = work_of(query, await self._plan(execute, "ANALYZE, BUFFERS, TIMING OFF, "))
        finally:
            await self.execute("ROLLBACK TO look; RELEASE look" if is_inside else "ROLLBACK")
        self.watch.costs[self, query] = work.cost
        self.watch.seen.append(work)

    async def ask(self, query: str, *args: Any) -> Any:
        """A question of one's own, which is not looked at, and which takes no other statement's place in the cache."""
        return await (await self.prepare(query)).fetchval(*args)


@asynccontextmanager
async def watched(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[PostgresStore, Watch]]:
    """A store whose every statement is looked at, on one connection for commit groups and one for questions."""
    watch = Watch()
    connect = asyncpg.connect

    async def connect_watched(*args: Any, **options: Any) -> Watched:
        connection: Watched = await connect(*args, connection_class=Watched, **options)
        connection.watch = watch
        watch.connections.append(connection)
        return connection

    await PostgresStore(url).migrate()
    with monkeypatch.context() as patch:
        patch.setattr(asyncpg, "connect", connect_watched)
        store = PostgresStore(url, committers=1, pool_size=1)
        await store.open()
        try:
            yield store, watch
        finally:
            await store.close()
