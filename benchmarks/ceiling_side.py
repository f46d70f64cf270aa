"""The raw ceiling: the rows that Ficha writes for these jobs, written again by the same statements in the same
transactions, prepared, each one durable; no rules, no engine, no reading. No queue with these tables can be faster."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import asyncpg

from .ficha_side import FichaSide
from .peer import Peer, Tally, Wrong
from .recording import Part, RecordedTransaction
from .workload import CALLERS

NOBODY: Final = "recorded rows have neither callers nor handlers"


class CeilingSide(Peer):
    name = "raw ceiling"
    package = "asyncpg"
    does = "the same rows in the same tables, and nothing else"
    lacks: ClassVar = {
        **{f"{what}_{n}": NOBODY for what in ("submit", "life") for n in CALLERS},
        **{key: NOBODY for key in ("work", "work_apart_1", "work_apart_2", "latency", "latency_apart")},
    }
    parts: Sequence[Part] = ()
    """What is written: a part for each call that will come. `__main__` has it recorded before the first round."""

    async def install(self, url: str) -> None:
        await FichaSide().install(url)

    async def open(self, url: str) -> None:
        self._url = url
        self._next = iter(self.parts)
        self._writers: dict[object, _Writer] = {}
        for part in self.parts:
            for transaction in part.transactions:
                if transaction.writer not in self._writers:
                    self._writers[transaction.writer] = _Writer(await asyncpg.connect(url))
                await self._writers[transaction.writer].prepare(transaction)
        await self._write()

    async def close(self) -> None:
        for writer in self._writers.values():
            await writer.connection.close()

    async def submit_many(self, numbers: Sequence[int]) -> None:
        if await self._write() != len(numbers):
            raise Wrong("these are not the submits that were recorded")

    async def finish_all(self, tally: Tally, last: asyncio.Future[int]) -> None:
        tally.add(await self._write())

    async def _write(self) -> int:
        """Writes the next part, each writer's transactions on a connection of its own."""
        part = next(self._next)
        transactions: dict[object, list[RecordedTransaction]] = defaultdict(list)
        for transaction in part.transactions:
            transactions[transaction.writer].append(transaction)
        claimed = [asyncio.Event() for _ in range(part.claims)]
        claims = iter(claimed)
        own = {id(transaction): next(claims) for transaction in part.transactions if transaction.is_claim}

        async def write(writer: _Writer, transactions: list[RecordedTransaction]) -> None:
            for transaction in transactions:
                for claim in claimed[: transaction.after]:
                    await claim.wait()
                await writer.write(transaction)
                if id(transaction) in own:
                    own[id(transaction)].set()

        async with asyncio.TaskGroup() as tasks:
            for name, theirs in transactions.items():
                tasks.create_task(write(self._writers[name], theirs))
        return part.jobs

    async def check(self, submitted: int, finished: int) -> None:
        """By Ficha itself: it must find what it would have written."""
        ficha = FichaSide()
        await ficha.reopen(self._url)
        try:
            await ficha.check(submitted, finished)
        finally:
            await ficha.close()


class _Writer:
    """One connection with its prepared statements."""

    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self.connection = connection
        self._prepared: dict[str, Any] = {}

    async def prepare(self, transaction: RecordedTransaction) -> None:
        for setting in transaction.settings:
            await self.connection.execute(f"SET {setting}")
        for text, _ in transaction.writes:
            if text not in self._prepared:
                self._prepared[text] = await self.connection.prepare(text)

    async def write(self, transaction: RecordedTransaction) -> None:
        if len(transaction.writes) == 1:
            # A statement by itself is a transaction, and durable when it returns.
            await self._send(*transaction.writes[0])
        else:
            async with self.connection.transaction():
                for text, values in transaction.writes:
                    await self._send(text, values)

    async def _send(self, text: str, values: Sequence[Any]) -> None:
        await self._prepared[text].fetch(*values)
