"""Events whose transactions commit in any order, as PostgreSQL allows it: each step is drawn from a seed."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from ficha.core.records import Event
from ficha.store.base import GetHorizon, Horizon, ListEvents, NumberedEvent

JOBS = 6
ACCOUNTS = 2
AT_ONCE = 4
EVENTS = 300


class Transaction:
    """It has the events' lock from its beginning to its end, and each of its jobs from when it writes about it."""

    def __init__(self) -> None:
        self.events: list[NumberedEvent] = []
        self.is_visible = False


class Commits:
    """A store that answers what a tail and its followers ask. While a question is under way, things go on."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.visible: dict[int, NumberedEvent] = {}
        self.horizons = 0
        self._number = 0
        self._begun = 0
        self._open: dict[str, Transaction] = {}

    @property
    def is_over(self) -> bool:
        """Whether nobody begins anything more."""
        return self._number >= EVENTS

    def has_open(self) -> bool:
        """Whether anything can still happen."""
        return bool(self._open) or not self.is_over

    def step(self) -> None:
        """One thing that somebody does."""
        if not self.is_over and self.random.randrange(AT_ONCE) >= len(self._open):
            self._begun += 1
            self._open[f"t{self._begun}"] = Transaction()
        if not self._open:
            return
        name = self.random.choice(list(self._open))
        transaction = self._open[name]
        what = self.random.random()
        if transaction.is_visible:
            del self._open[name]
        elif what < 0.7 and not self.is_over:
            self._write(transaction)
        elif what < 0.95:
            transaction.is_visible = True
            self.visible |= {numbered.number: numbered for numbered in transaction.events}
        else:
            del self._open[name]

    def _write(self, transaction: Transaction) -> None:
        held = {_job(found) for other in self._open.values() if other is not transaction for found in other.events}
        job = self.random.choice((self.random.randrange(JOBS), *map(_job, transaction.events)))
        if job not in held:
            self._number += 1
            event = Event(f"j{job}", f"a{job % ACCOUNTS}", "log", self._number)
            transaction.events.append(NumberedEvent(self._number, event))

    def of(self, job_id: str | None = None, account_id: str | None = None) -> list[NumberedEvent]:
        """What there is to be seen of a job or an account."""
        query = ListEvents(job_id, account_id)
        return [found for _, found in sorted(self.visible.items()) if _fits(query, found)]

    async def read(self, query: Any) -> Any:
        await self._travel()
        if isinstance(query, GetHorizon):
            self.horizons += 1
            last = max(self.visible, default=0)
            # The snapshot is older than the look at the locks.
            for _ in range(self.random.randrange(3)):
                self.step()
            answer: Any = Horizon(last, frozenset(self._open))
        else:
            assert isinstance(query, ListEvents)
            fitting = [found for _, found in sorted(self.visible.items()) if _fits(query, found)]
            answer = fitting[: query.limit]
        await self._travel()
        return answer

    async def _travel(self) -> None:
        for _ in range(self.random.randrange(4)):
            self.step()
            await asyncio.sleep(0)


def _job(found: NumberedEvent) -> int:
    return int(found.event.job_id[1:])


def _fits(query: ListEvents, found: NumberedEvent) -> bool:
    event = found.event
    return (
        found.number > query.after
        and query.job_id in (None, event.job_id)
        and query.account_id in (None, event.account_id)
        and (event.job_id in query.jobs or event.account_id in query.accounts or not (query.jobs or query.accounts))
    )
