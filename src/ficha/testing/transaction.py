"""`FakeTransaction`: what a test passes as `connection=` where Ficha runs in memory or on SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from ..engine.held_commands import HeldCommands


class FakeTransaction(HeldCommands):
    """Stands for a transaction of your own, so that code with `connection=` can be tested without PostgreSQL.

        async with FakeTransaction() as connection:
            await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)

    The calls made with it are committed together when the block ends, and dropped if the block raises. Synchronous code
    uses `with`. Two things differ from PostgreSQL: no account is locked before the commit, and if another call makes
    one of these impossible meanwhile, the commit raises and keeps nothing.

    own: your connection, or `AsyncSession` of SQLAlchemy, to a test database. Everything else goes to it: `execute`,
        `add`, and so on; `commit`, `rollback` and `begin` then apply to both; yours commits first.
    """

    def __init__(self, own: Any = None) -> None:
        super().__init__()
        self._own = own

    def __getattr__(self, name: str) -> Any:
        if self._own is None:
            raise AttributeError(f"this transaction has no {name}; give it your own connection: FakeTransaction(own)")
        return getattr(self._own, name)

    async def commit(self) -> None:
        if self._own is not None:
            await self._own.commit()
        await self.commit_held()

    async def rollback(self) -> None:
        self.drop_held()
        if self._own is not None:
            await self._own.rollback()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Self]:
        """A block that commits at its end, or rolls back if it raises."""
        async with self:
            yield self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await (self.commit() if error is None else self.rollback())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.drop_held()
            if self._own is not None:
                self._own.rollback()
            return
        if self._own is not None:
            self._own.commit()
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self.commit_held(), self._loop).result()
