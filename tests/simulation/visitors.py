"""Pages that come and go, an operator who gives money back and acts in bulk, and what must hold of both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from ficha.core import commands as c
from ficha.core import outcomes as o
from ficha.core.cancel import LEFT, SILENT
from ficha.core.dataset import State
from ficha.core.policy import MILLISECOND, SECOND, Policy
from ficha.core.records import BulkAct, PageSessions, Parked, Ready

from .application import TOOLS
from .clients import Client, Requester
from .database import Transaction

LATE_S: Final = 60.0
"""How long after its time a session may be there, once the faults have stopped."""


class Visitor(Client):
    """A page: submits jobs of its session, says that it is open, is left, comes back, or is killed without a word."""

    def __init__(self, chance: Random, *args: Any) -> None:
        super().__init__(*args)
        self._chance = chance
        self._visits = 0

    async def run(self, acts: int) -> None:
        session = self._new_session()
        for _ in range(acts):
            await asyncio.sleep(self._chance.expovariate(1.0) * 2.0)
            match self._chance.randrange(9):
                case 0 | 1:
                    await self.ask(lambda app, to=session: app.stay_in_session(to, account=self.account))
                case 2 | 3:
                    await self.ask(lambda app, to=session: app.leave_session(to, account=self.account), tries=2)
                case 4 if self.jobs:
                    job_id = self._chance.choice(self.jobs)
                    await self.ask(lambda app, job_id=job_id, to=session: _follow(app, job_id, to))
                case 5:
                    session = self._new_session()
                case _:
                    await self._submit(session=session)

    def _new_session(self) -> str:
        self._visits += 1
        return f"{self.name} visit {self._visits}"


async def _follow(app: Any, job_id: str, session: str) -> None:
    await app.follow_in_session(await app.job(job_id), session)


class Generous(Requester):
    """An operator who refunds jobs, more than once and at several servers, and acts on all dead letters at once."""

    async def run(self, acts: int) -> None:
        for _ in range(acts):
            await asyncio.sleep(self._random.expovariate(1.0) * 4.0)
            match self._random.randrange(3):
                case 0:
                    act = self._random.choice(("requeue", "discard"))
                    await self._bulk(act, "dead:yes")
                case 1:
                    part = self._random.choice(({}, {"amount": 1}, {"share": 0.5}))
                    await self._bulk("refund", "state:completed tool:quick,flaky", **part)
                case _:
                    await self._refund()

    async def _refund(self) -> None:
        page = await self.ask(lambda app: app.jobs(statuses=("completed", "failed"), limit=4))
        # What providers were paid for is judged without gifts.
        mine = [job for job in page.items if job.tool in TOOLS] if page is not None else []
        for job in mine:

            def act(app: Any, job_id: str = job.id) -> Any:
                part = self._random.choice(({}, {"amount": 1}, {"share": 0.5}))
                return app.acting("operator").refund(job_id, reason="a gift", **part)

            await asyncio.gather(*(self.ask(act, tries=2) for _ in range(self._random.randint(1, 2))))

    async def _bulk(self, act: Any, search: str, **part: Any) -> None:
        begun = await self.ask(
            lambda app: app.acting("operator").begin_bulk_act(act, search, reason="all of it", **part)
        )
        if begun is not None and self._random.random() < 0.3:
            await asyncio.sleep(self._random.random())
            await self.ask(lambda app: app.acting("operator").stop_bulk_act(begun.id), tries=3)


class VisitWatcher:
    """Keeps books of its own: until when each session goes on, and what each bulk act has done."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._ends: dict[tuple[str, str], tuple[int, bool]] = {}
        """account, session → when it ends, and whether it was left"""
        self._done: dict[str, int] = {}
        """bulk act → the audit lines of its jobs"""

    def watch(self, transaction: Transaction) -> Iterator[str]:
        now = transaction.snapshot.now
        ended: set[tuple[str, str]] = set()
        queued_again: set[str] = set()
        back: set[str] = set()
        for command, outcome in zip(map(c.unwrapped, transaction.commands), transaction.outcomes, strict=True):
            match command, outcome:
                case _, o.Recovered(job_id, act="requeued"):
                    back.add(job_id)
                case _, o.Finished(job, changed=True) if isinstance(job.place, Ready | Parked):
                    back.add(job.id)
                case _, o.Claimed(leases):
                    back.difference_update(lease.job.id for lease in leases)
                case c.ChangeSession(account, session, to), o.SessionChanged(changed=True):
                    self._hear(account, session, now, to == "left")
                case c.HearSession(account, session), o.SessionHeard(changed=True):
                    self._hear(account, session, now, is_left=False)
                case c.Submit(account, (c.NewJob() as first, *_)), o.Submitted():
                    if (account, first.spec.session) in self._ends:
                        self._hear(account, str(first.spec.session), now, is_left=False)
                case c.EndSession(account, session, more=more), o.SessionEnded(changed=True):
                    ends_at, _ = self._ends.get((account, session), (None, False))
                    if ends_at is None or now < ends_at:
                        yield f"session {session} was ended before its time, {ends_at}, at {now}"
                    ended.add((account, session))
                    queued_again |= back
                    if not more:
                        self._ends.pop((account, session), None)
        yield from self._cancelled(transaction, ended, queued_again)
        yield from self._bulk_acts(transaction)

    def _hear(self, account: str, session: str, now: int, is_left: bool) -> None:
        wait_ms = self._policy.leave_grace_ms if is_left else self._policy.silent_session_ms
        self._ends[account, session] = (now + wait_ms * MILLISECOND, is_left)

    def _cancelled(
        self, transaction: Transaction, ended: set[tuple[str, str]], queued_again: set[str]
    ) -> Iterator[str]:
        """With a session only its queued jobs are cancelled, and with nothing else. Some were running before this
        commit, and an earlier command of it put them back into the queue."""
        for change in transaction.changes.jobs:
            before, after = change.before, change.after
            if after.status == "cancelled" and after.error in (LEFT, SILENT) and before is not None:
                if before.status == "cancelled":
                    continue
                if not isinstance(before.place, Ready | Parked) and after.id not in queued_again:
                    yield f"job {after.id} was {before.status} and was cancelled with its session"
                if (after.account_id, after.spec.session) not in ended:
                    yield f"job {after.id} was cancelled with session {after.spec.session}, which did not end"

    def _bulk_acts(self, transaction: Transaction) -> Iterator[str]:
        for line in transaction.changes.audit:
            if (act_id := line.details.get("bulk_act")) is not None:
                self._done[act_id] = self._done.get(act_id, 0) + 1
        for row in transaction.changes.keyed:
            if isinstance(row, BulkAct) and row.done != self._done.get(row.id, 0):
                yield f"bulk act {row.id} counts {row.done} jobs, and did {self._done.get(row.id, 0)}"

    def is_over(self, state: State) -> bool:
        return all(act.state != "running" for act in state.of(BulkAct).values())

    def wrong(self, state: State, now: int) -> Iterator[str]:
        """What is not so in the end."""
        for act in state.of(BulkAct).values():
            if act.state == "running":
                yield f"bulk act {act.id} is never done"
        for known in state.of(PageSessions).values():
            if known.next_at < now - LATE_S * SECOND:
                yield f"a session of account {known.account_id} does not end"
