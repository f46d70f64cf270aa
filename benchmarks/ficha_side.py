"""Ficha as it is out of the box: each job is submitted under a key, charged, leased and finished, with its trail."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from ficha import Ficha, Lease, Plan, Pool, Refused, SubmitRequest
from ficha.core.commands import Ending
from ficha.core.outcomes import Finished
from ficha.garbage import freeze_objects
from ficha.store.base import GetState
from ficha.store.postgres import PostgresStore

from .peer import Knob, Peer, Tally, Wrong
from .workload import ACCOUNTS, COST, RESULT, account, payload

POOL: Final = "images"
LOOPS: Final = 8
CLAIM_LIMIT: Final = 200
PLENTY: Final = 1_000_000_000
MOST_CLAIMS: Final = 1_000_000
IDLE_S: Final = 0.02
GRACE_S: Final = 30.0


class _CountingFicha(Ficha):
    """Sees when the ends of jobs were committed: the worker itself returns only some time later."""

    tally: Tally

    async def end_many(self, ends: Iterable[tuple[Lease, Ending]]) -> list[Finished | Refused]:
        answers = await super().end_many(ends)
        self.tally.add(sum(isinstance(answer, Finished) for answer in answers))
        return answers


class FichaSide(Peer):
    name = "Ficha"
    package = "ficha"
    does = "key, quotas, charge, ledger line, lease, result, event trail"
    knob = Knob("handlers at a time", (200, 400, 1_000))
    setting = 400
    accounts: int = ACCOUNTS

    async def install(self, url: str) -> None:
        if url.startswith("postgresql:"):
            await PostgresStore(url).migrate()

    async def open(self, url: str) -> None:
        await self.reopen(url)
        names = {self._account(number) for number in range(self.accounts)}
        await asyncio.gather(*(self._app.open_account(name, plan="pro", credits=PLENTY) for name in names))

    async def reopen(self, url: str) -> None:
        """The application alone, on a database that may have accounts and jobs."""
        # Limits that nobody reaches: they are looked at with every submit, and refuse none.
        plan = Plan("pro", priority=10, max_running=PLENTY, max_active=PLENTY, per_hour=PLENTY, daily_limit=PLENTY)
        self._app = _CountingFicha(url, plans=[plan], pools=[Pool(POOL)])

        @self._app.tool(pool=POOL, cost=COST)
        async def upscale(job: Any, image: str, scale: int = 2) -> dict[str, Any]:
            self.began()
            return RESULT

        await self._app.open()

    def started(self) -> None:
        # As `ficha worker` does.
        freeze_objects()

    async def close(self) -> None:
        await self._app.close()

    def _account(self, number: int) -> str:
        return account(number, self.accounts)

    async def submit(self, number: int) -> None:
        mine = self._account(number)
        await self._app.submit("upscale", payload(number), account=mine, idempotency_key=f"key-{number}")

    async def submit_many(self, numbers: Sequence[int]) -> None:
        requests = [
            SubmitRequest(tool="upscale", payload=payload(n), account=self._account(n), idempotency_key=f"key-{n}")
            for n in numbers
        ]
        _none_refused(await self._app.submit_many(requests))

    async def finish_all(self, tally: Tally, last: asyncio.Future[int]) -> None:
        self._app.tally = tally
        async with asyncio.TaskGroup() as loops:
            for number in range(LOOPS):
                loops.create_task(self._finish(f"loop-{number}", last))

    async def _finish(self, worker: str, last: asyncio.Future[int]) -> None:
        for _ in range(MOST_CLAIMS):
            heard, was_last = self._app.work_heard(POOL), last.done()
            leases: list[Lease] = await self._app.claim(POOL, limit=CLAIM_LIMIT, worker=worker)
            if leases:
                _none_refused(await self._app.finish_many((lease, RESULT) for lease in leases))
            elif was_last:
                return
            else:
                await self._app.wait_for_work(POOL, IDLE_S, since=heard)
        raise Wrong("the queue does not become empty")

    @asynccontextmanager
    async def working(self, tally: Tally) -> AsyncIterator[None]:
        self._app.tally = tally
        worker = self._app.worker([POOL], concurrency=self.setting, name=f"worker-{os.getpid()}")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run())
            try:
                yield
            finally:
                worker.stop(GRACE_S)

    async def check(self, submitted: int, finished: int) -> None:
        if problems := await self._app.verify():
            raise Wrong(f"{len(problems)} invariants are broken, the first: {problems[0]}")
        again = await self._app.submit("upscale", payload(0), account=self._account(0), idempotency_key="key-0")
        state = await self._app.engine.store.read(GetState(texts=True))
        statuses = Counter(job.status for job in state.jobs.values())
        entries = Counter((entry.kind, entry.amount) for entry in state.entries)
        events = Counter(event.kind for event in state.events)
        charged = {entry.job_id for entry in state.entries if entry.kind == "charge"}
        facts = {
            "a repeated submit finds the first job": again.idempotent_hit,
            "all jobs are there": len(state.jobs) == submitted,
            "all are completed or queued": statuses == +Counter(completed=finished, queued=submitted - finished),
            "each is charged once": entries["charge", -COST] == len(charged) == submitted,
            "nothing else is paid": set(entries) == {("grant", PLENTY), ("charge", -COST)},
            "each has its first event": events["submitted"] == submitted,
            "each finished one has its last event": events["completed"] == finished,
        }
        if wrong := [fact for fact, holds in facts.items() if not holds]:
            raise Wrong(f"not so after {submitted} submits and {finished} finishes: {'; '.join(wrong)}")


def _none_refused(answers: Sequence[object]) -> None:
    for answer in answers:
        if isinstance(answer, Refused):
            raise answer
