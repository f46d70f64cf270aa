"""A store around another one that counts what is asked of it, and holds it back or breaks it where a test says so."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Set
from typing import Any, TypeVar

from ficha.core.needs import Needs
from ficha.store.base import ClaimsWithSubmits, Committed, CommitUnknown, Decide, Hints, Query, Store, no_hints

T = TypeVar("T")

LOST_BEFORE = CommitUnknown("the connection was lost; the commit did not take place")
LOST_AFTER = CommitUnknown("the connection was lost; the commit took place")


class InstrumentedStore:
    """Passes everything on to `inner`.

    faults: what happens to the next commit groups, one each: None for nothing, an error that is raised instead of
        running it, or LOST_AFTER, which is raised after it was committed. `always` is for those after them.
    answers: what happens to the next questions whether a commit group was committed: None for the truth, or an error.
    gate, read_gate, notify_gate: commit groups, questions and hints wait here before they begin.
    """

    def __init__(self, inner: Store, *, committers: int | None = None) -> None:
        self.inner = inner
        self.committers = inner.committers if committers is None else committers
        self.faults: deque[Exception | None] = deque()
        self.always: Exception | None = None
        self.answers: deque[Exception | None] = deque()
        self.notify_fault: Exception | None = None
        self.read_fault: Exception | None = None
        self.groups = 0
        """Commit groups begun, those that failed included."""
        self.reads: Counter[str] = Counter()
        self.notified: list[set[str]] = []
        self.tidied = 0
        self.commits_kept_ms: int | None = None
        """For how long commits were to be kept when it was last tidied up."""
        self.gate = asyncio.Event()
        self.gate.set()
        self.read_gate = asyncio.Event()
        self.read_gate.set()
        self.notify_gate = asyncio.Event()
        self.notify_gate.set()
        self.listens = asyncio.Event()
        """Set once hints from other processes are heard."""
        self._stirred = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Returns once the condition holds; it is looked at after everything that is asked of the store."""
        async with asyncio.timeout(20):
            while not condition():
                self._stirred.clear()
                await self._stirred.wait()

    async def open(self) -> None:
        await self.inner.open()

    async def close(self) -> None:
        await self.inner.close()

    async def transact(
        self, committer: str, number: int, needs: Needs, decide: Decide, hints: Hints = no_hints
    ) -> Committed:
        self.groups += 1
        self._stirred.set()
        await self.gate.wait()
        fault = self.faults.popleft() if self.faults else self.always
        if fault is not None and fault is not LOST_AFTER:
            raise fault
        committed = await self.inner.transact(committer, number, needs, decide, hints)
        self._stirred.set()
        if fault is not None:
            raise CommitUnknown(str(fault), committed)
        return committed

    async def committed(self, committer: str, number: int) -> bool:
        answer = self.answers.popleft() if self.answers else None
        if answer is not None:
            raise answer
        return await self.inner.committed(committer, number)

    async def transact_within(self, connection: Any, needs: Needs, decide: Decide, hints: Hints) -> Committed:
        return await self.inner.transact_within(connection, needs, decide, hints)

    async def read(self, query: Query[T]) -> T:
        self.reads[type(query).__name__] += 1
        self._stirred.set()
        await self.read_gate.wait()
        if self.read_fault is not None:
            raise self.read_fault
        answer = await self.inner.read(query)
        self._stirred.set()
        return answer

    def may_claim_with_submit(self, pools: Set[str]) -> bool:
        return not isinstance(self.inner, ClaimsWithSubmits) or self.inner.may_claim_with_submit(pools)

    async def tidy(self, commits_kept_ms: int) -> bool:
        self.tidied += 1
        self.commits_kept_ms = commits_kept_ms
        return await self.inner.tidy(commits_kept_ms)

    async def scrub(self) -> bool:
        return await self.inner.scrub()

    async def notify(self, names: Iterable[str]) -> None:
        self.notified.append(set(names))
        self._stirred.set()
        await self.notify_gate.wait()
        if self.notify_fault is not None:
            raise self.notify_fault
        await self.inner.notify(names)

    async def listen(self, heard: Callable[[str], None]) -> None:
        await self.inner.listen(heard)
        self.listens.set()
