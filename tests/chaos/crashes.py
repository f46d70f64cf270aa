"""Named points between load and reply where a process kills itself, as `kill -9` would, while it runs a commit group.

The store's own parts are wrapped, in the process that is to die; the store knows nothing of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any, Final, Literal, get_args

from ficha.core.needs import Needs
from ficha.core.snapshot import Snapshot
from ficha.store.base import Committed, Decide, Decision, Hints
from ficha.store.postgres import store as postgres
from ficha.store.sqlite import store as sqlite

Point = Literal["loaded", "decided", "applied", "committed"]
Act = Literal["submit", "claim", "finish"]
POINTS: Final[tuple[Point, ...]] = get_args(Point)
ACTS: Final[tuple[Act, ...]] = get_args(Act)


def act_of(needs: Needs) -> Act | None:
    """What a commit group is about, from what it asks to load."""
    if any(scope == "submit" for _, scope, _ in needs.keys):
        return "submit"
    if needs.ready:
        return "claim"
    return "finish" if needs.owned_jobs else None


class Crash:
    """Kills this process at a point of the `nth` commit group of one kind that changes anything."""

    def __init__(self, point: Point, act: Act, nth: int = 1) -> None:
        self._point = point
        self._act = act
        self._left = nth
        self._doomed: object = None

    def arm(self) -> None:
        """Wraps both stores; a process has one of them."""
        for store in (postgres.PostgresStore, sqlite.SqliteStore):
            store.transact = self._watched(store.transact)  # type: ignore[method-assign]
        if find_spec("ficha.store.postgres.optimistic"):
            self._arm_layer()
        commit, sync_commit = postgres.commit, sqlite.SqliteStore._commit

        async def commit_and_die(connection: Any, attempt: Any) -> None:
            self._reach("applied")
            await commit(connection, attempt)
            self._reach("committed")

        def sync_commit_and_die(store: Any, db: Any, attempt: Any = None) -> None:
            self._reach("applied")
            sync_commit(store, db, attempt)
            self._reach("committed")

        postgres.commit = commit_and_die
        sqlite.SqliteStore._commit = sync_commit_and_die  # type: ignore[method-assign]

    def _arm_layer(self) -> None:
        from ficha.store.postgres.optimistic.statements import PostgresRowAccess

        write_if = PostgresRowAccess.write_if

        async def write_and_die(*args: Any) -> Any:
            """With a guard, to write is to commit: nothing lies between, so it dies while that is under way."""
            if self._is_doomed_at("applied"):
                asyncio.get_running_loop().call_later(0.001, _die)
            written = await write_if(*args)
            if written is not None:
                self._reach("committed")
            return written

        PostgresRowAccess.write_if = write_and_die  # type: ignore[method-assign]

    def _watched(self, transact: Callable[..., Awaitable[Committed]]) -> Callable[..., Awaitable[Committed]]:
        async def watched(
            store: Any, committer: str, number: int, needs: Needs, decide: Decide, hints: Hints
        ) -> Committed:
            if act_of(needs) != self._act:
                return await transact(store, committer, number, needs, decide, hints)

            def decide_and_die(snapshot: Snapshot) -> Decision:
                # The rules are pure, so that to ask them once more beforehand changes nothing.
                if self._doomed is None and decide(snapshot)[0]:
                    self._left -= 1
                    self._doomed = _here() if self._left == 0 else None
                self._reach("loaded")
                decision = decide(snapshot)
                self._reach("decided")
                return decision

            return await transact(store, committer, number, needs, decide_and_die, hints)

        return watched

    def _reach(self, point: Point) -> None:
        if self._is_doomed_at(point):
            _die()

    def _is_doomed_at(self, point: Point) -> bool:
        return point == self._point and self._doomed is not None and self._doomed == _here()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _here() -> object:
    """Who runs this transaction: a committer's task on PostgreSQL, the writer's thread on SQLite."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return threading.get_ident()
