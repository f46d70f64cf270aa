"""What Ficha writes, noted by transaction as it goes to the driver, so that it can be written again with nothing around
it. Only the driver is listened to: how the store puts its statements together does not matter here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg

from .databases import Kind
from .ficha_side import FichaSide
from .measurements import Trial
from .peer import Tally
from .workload import Numbers, Size

WRITE: Final = re.compile(r"\b(INSERT INTO|DELETE FROM|UPDATE [\w.]+ ((AS )?\w+ )?SET)\b")
CLAIM: Final = "INSERT INTO ficha.leases"
SETTING: Final = re.compile(r"SET LOCAL (.*?)\s*(?:;|$)")
# A statement that is sent on a guess has a condition that holds only in the database where the guess was made. Without
# prepared statements none is sent, and the rows are the same.
NO_GUESSES: Final = "&ficha_prepared=off"


@dataclass
class RecordedTransaction:
    """What one transaction wrote.

    writer: whose it was. What one writer wrote, it wrote in this order, because it may be the same rows.
    settings: what was set in the transaction, which the plans of its statements depend on.
    after: how many claims of this part had been committed when it began; whoever finishes jobs needs their leases.
    """

    writer: object
    settings: tuple[str, ...]
    after: int
    writes: list[tuple[str, Sequence[Any]]] = field(default_factory=list)

    @property
    def is_claim(self) -> bool:
        return any(CLAIM in text for text, _ in self.writes)


@dataclass
class Part:
    """What one call to Ficha wrote."""

    transactions: list[RecordedTransaction] = field(default_factory=list)
    jobs: int = 0
    claims: int = 0


class Recorder(FichaSide):
    """Ficha, with a part for each call that writes."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._begun: dict[int, RecordedTransaction] = {}

    async def open(self, url: str) -> None:
        self.parts.append(Part())
        await super().open(url + NO_GUESSES)

    async def submit_many(self, numbers: Sequence[int]) -> None:
        self.parts.append(Part(jobs=len(numbers)))
        await super().submit_many(numbers)

    async def finish_all(self, tally: Tally, last: asyncio.Future[int]) -> None:
        self.parts.append(Part())
        await super().finish_all(tally, last)
        self.parts[-1].jobs = tally.count

    @contextmanager
    def listening(self) -> Iterator[None]:
        plain = {name: getattr(asyncpg.Connection, name) for name in ("execute", "fetch")}
        for name, method in plain.items():
            setattr(asyncpg.Connection, name, self._heard(method))
        try:
            yield
        finally:
            for name, method in plain.items():
                setattr(asyncpg.Connection, name, method)

    def _heard(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def heard(connection: Any, query: str, *values: Any, **options: Any) -> Any:
            verb = query.split(None, 1)[0]
            is_write = WRITE.search(query) is not None
            if verb == "BEGIN" or (is_write and id(connection) not in self._begun):
                settings = tuple(SETTING.findall(query)) if verb == "BEGIN" else ()
                self._begun[id(connection)] = RecordedTransaction(
                    asyncio.current_task(), settings, self.parts[-1].claims
                )
            if is_write:
                self._begun[id(connection)].writes.append((query, values))
            answer = await method(connection, query, *values, **options)
            if not connection.is_in_transaction() and (transaction := self._begun.pop(id(connection), None)):
                self._ended(transaction, was_kept=verb != "ROLLBACK")
            return answer

        return heard

    def _ended(self, transaction: RecordedTransaction, *, was_kept: bool) -> None:
        if was_kept and transaction.writes:
            part = self.parts[-1]
            part.transactions.append(transaction)
            part.claims += transaction.is_claim


async def recorded(kind: Kind, size: Size) -> list[Part]:
    """What is written when Ficha warms up, fills its queue and empties it, as the measurements have it do."""
    recorder = Recorder()
    async with kind.fresh(recorder) as url:
        with recorder.listening():
            await recorder.open(url)
            try:
                trial = Trial(recorder, kind, url, size, Numbers())
                await trial.full_queue()
                await trial.empty()
            finally:
                await recorder.close()
    return recorder.parts
