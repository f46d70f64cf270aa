"""Transactions that commit in any order, as PostgreSQL allows it: each step is drawn from a seed."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from ficha.core.records import Event
from ficha.store.base import Commit, GetFirstSearched, GetHistory, GetHorizon, Horizon, ListCommits, NumberedEvent
from ficha.store.commits import placed

JOBS = 6
ACCOUNTS = 2
AT_ONCE = 4
COMMITS = 300
MOST_EVENTS = 3


class Transaction:
    """It has the lock on the commits from its beginning to its end, and each of its jobs from when it writes about it.
    A caller's own may write several rows."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.is_visible = False


class Commits:
    """A store that answers what a tail and its followers ask. While a question is under way, things go on."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.visible: dict[int, Commit] = {}
        self.horizons = 0
        self._number = 0
        self._begun = 0
        self._open: dict[str, Transaction] = {}

    @property
    def is_over(self) -> bool:
        """Whether nobody begins anything more."""
        return self._number >= COMMITS

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
            self.visible |= {commit.number: commit for commit in transaction.commits}
        else:
            del self._open[name]

    def _write(self, transaction: Transaction) -> None:
        held = {job for other in self._open.values() if other is not transaction for job in _jobs(other.commits)}
        mine = [*_jobs(transaction.commits), *(self.random.randrange(JOBS) for _ in range(MOST_EVENTS))]
        jobs = [job for job in self.random.choices(mine, k=self.random.randint(1, MOST_EVENTS)) if job not in held]
        if jobs:
            self._number += 1
            commit = Commit(self._number, [])
            transaction.commits.append(commit)
            for job in jobs:
                commit.events.append(self._event(transaction, f"j{job}", f"a{job % ACCOUNTS}"))

    def _event(self, transaction: Transaction, job_id: str, account_id: str) -> Event:
        """The next line of a job's history, which nobody else can write meanwhile."""
        commits = [*self.visible.values(), *transaction.commits]
        before = sum(event.job_id == job_id for commit in commits for event in commit.events)
        return Event(job_id, account_id, before + 1, "log", self._number)

    def of(self, job_id: str | None = None, account_id: str | None = None) -> list[NumberedEvent]:
        """What there is to be seen of a job or an account."""
        told = [one for _, commit in sorted(self.visible.items()) for one in placed(commit)]
        if job_id is not None:
            return [NumberedEvent(one.event.number, one.event) for one in told if one.event.job_id == job_id]
        return [one for one in told if one.event.account_id == account_id]

    async def read(self, query: Any) -> Any:
        await self._travel()
        answer: Any
        match query:
            case GetHorizon():
                self.horizons += 1
                last = max(self.visible, default=0)
                # The snapshot is older than the look at the locks.
                for _ in range(self.random.randrange(3)):
                    self.step()
                answer = Horizon(last, frozenset(self._open))
            case GetFirstSearched():
                answer = 0
            case GetHistory(job_id, after, limit):
                answer = [one.event for one in self.of(job_id=job_id)[after:][:limit]]
            case ListCommits(after, limit, account_id):
                fitting = [commit for number, commit in sorted(self.visible.items()) if number > after]
                answer = [commit for commit in fitting if _tells_of(commit, account_id)][:limit]
        await self._travel()
        return answer

    async def _travel(self) -> None:
        for _ in range(self.random.randrange(4)):
            self.step()
            await asyncio.sleep(0)


def _jobs(commits: list[Commit]) -> set[int]:
    return {int(event.job_id[1:]) for commit in commits for event in commit.events}


def _tells_of(commit: Commit, account_id: str | None) -> bool:
    return account_id is None or any(event.account_id == account_id for event in commit.events)
