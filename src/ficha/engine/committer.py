"""Group commit: one stream of transactions to the store. Calls that wait together share a transaction and a flush.

Callers get their outcomes only after the commit. The committer runs a conflicting group again, waits for an unreachable
database, and asks the database whether an ambiguous commit took place: a caller learns what is true, or that nobody
could find out.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ..backoff import pause_s
from ..core.commands import (
    AdvanceBulkAct,
    Claim,
    Command,
    EndSession,
    FireSchedule,
    PruneJobs,
    RunSchedule,
    Submit,
    unwrapped,
)
from ..core.decide import decide
from ..core.needs import needs
from ..core.outcomes import Outcome, Refusal
from ..core.policy import Policy
from ..core.snapshot import Snapshot
from ..futures import fail, settle, wake
from ..store.base import (
    ClaimsWithSubmits,
    Committed,
    CommitUnknown,
    Decision,
    DiskFull,
    Hints,
    LockHeld,
    Store,
    Transient,
    Unavailable,
)
from .fair_queue import FairQueue, Ticket

log = logging.getLogger("ficha.engine")

YOUR_OWN: Final = (
    "Your own transaction may hold the account: a call with connection= locks it until you commit or roll back"
)
CLOSED: Final = Refusal("OVERLOADED", "this process is shutting down; ask another one, or again.", retry_after_s=1.0)


TOGETHER: Final = 3
"""How many times a group that loses conflicts is run as a whole; after that each caller's part is run by itself."""


RESTS: Final = 4
"""After a call heavier than a group, if other accounts waited meanwhile, the next such call waits this many times as
long as that one took. So heavy calls take a fifth of the time at most."""
TOOK_MOST_S = 5.0
"""The longest duration counted for that wait: a call takes longer only when the database is unreachable or the process
was suspended."""


FULL_S: Final = 1.0
"""How long a call waits for a database whose disk is full: it will hardly have space again by itself."""


class CommitLimits(Struct, frozen=True):
    """How a committer behaves.

    group_weight: jobs and commands in one transaction, at most. Defaults to 400.
    waiting_weight: jobs and commands that may wait for their turn; beyond it a call is refused as OVERLOADED. Defaults
        to 20,000.
    account_weight: the same for the calls of one account, so that they do not cause refusals for other accounts.
        Defaults to 10,000.
    give_up_s: how long a call waits for an unreachable database before it is refused. Defaults to 30 s. A database
        whose disk is full is waited for no longer than a second.
    conflict_tries: how many times a call that loses conflicts is run before it is refused as OVERLOADED. Defaults to
        20.
    backoff_s, backoff_max_s: the first and the longest pause before trying again, drawn with full jitter.
    """

    group_weight: int = 400
    waiting_weight: int = 20_000
    account_weight: int = 10_000
    give_up_s: float = 30.0
    conflict_tries: int = 20
    backoff_s: float = 0.02
    backoff_max_s: float = 2.0


class StandingTicket:
    """A claim that waits for work: the group that brings work to its pools also decides the claim."""

    def __init__(self, claim: Claim) -> None:
        self.pools = frozenset(claim.pools)
        self.ticket = Ticket((claim,), None, 1, time.monotonic(), asyncio.get_running_loop().create_future())
        self.is_taken = False

    def withdraw(self) -> bool:
        """Withdraws the claim. Returns False if a group has taken it: then the caller must wait for its outcome."""
        if not self.is_taken:
            self.ticket.future.cancel()
        return not self.is_taken


class Committer:
    """Takes all waiting calls, up to a limit, as the next group."""

    def __init__(
        self,
        store: Store,
        policy: Policy,
        limits: CommitLimits,
        published: Callable[[Committed], None],
        troubled: Callable[[Unavailable], None],
        hints: Hints,
        standing: list[StandingTicket],
    ) -> None:
        self.id = str(uuid.uuid4())
        self._store = store
        self._asks = store if isinstance(store, ClaimsWithSubmits) else None
        self.policy = policy
        self._limits = limits
        self._published = published
        self._troubled = troubled
        self._hints = hints
        self._waiting = FairQueue()
        self._standing = standing
        """Waiting claims, shared by all committers of the process."""
        self._number = 0
        self._rests_until = 0.0
        self._full: DiskFull | None = None
        """What the database said last, unless it has written since. It may have gone down for it."""
        self._loop = asyncio.get_running_loop()
        self._idle: asyncio.Future[None] | None = None
        self._is_closing = False
        self.has_callers = False
        """Whether this process makes calls inside transactions of its own as well."""
        self._task = asyncio.create_task(self._run(), name=f"ficha committer {self.id}")

    def call(self, commands: tuple[Command, ...]) -> asyncio.Future[list[Outcome]]:
        """Gives the commands' outcomes once they are committed. A full or closing committer refuses at once."""
        future: asyncio.Future[list[Outcome]] = self._loop.create_future()
        weight = _weight(commands[0]) if len(commands) == 1 else sum(map(_weight, commands))
        account_id = _account_of(commands)
        refusal = CLOSED if self._is_closing else self._refuse_weight(account_id, weight)
        if refusal is not None:
            future.set_result([refusal] * len(commands))
        else:
            self._waiting.append(Ticket(commands, account_id, weight, time.monotonic(), future))
            self._rouse()
        return future

    def _rouse(self) -> None:
        if self._idle is not None:
            wake(self._idle)

    def stand(self, claim: Claim) -> StandingTicket:
        """Leaves a claim here until a group brings work for it, or it is withdrawn."""
        standing = StandingTicket(claim)
        self._standing.append(standing)
        return standing

    def _refuse_weight(self, account_id: str | None, weight: int) -> Refusal | None:
        """Returns a refusal if too much waits already. A ticket heavier than the whole queue, or than an account's
        share of it, is accepted when nothing else waits there: otherwise it could never run."""
        waiting = self._waiting.weight
        if waiting and waiting + weight > self._limits.waiting_weight:
            return _overloaded(f"{waiting} operations")
        own = self._waiting.weight_of(account_id) if waiting and account_id is not None else 0
        if own and own + weight > self._limits.account_weight:
            return _overloaded(f"{own} operations of account {account_id}")
        return None

    async def close(self, grace_s: float) -> None:
        """Accepts no new calls, finishes the waiting ones within the grace, and refuses the rest."""
        self._is_closing = True
        self._rouse()
        await asyncio.wait({self._task}, timeout=grace_s)
        if not self._task.done():
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for ticket in (*self._waiting.clear(), *(standing.ticket for standing in self._standing)):
            settle(ticket.future, [CLOSED] * len(ticket.commands))
        self._standing.clear()

    async def _run(self) -> None:
        while True:
            if not self._waiting:
                if self._is_closing:
                    return
                await self._roused()
                continue
            tickets = self._take()
            if not tickets and self._waiting:
                await self._roused(self._rests_until - time.monotonic())
                continue
            began_at = time.monotonic()
            try:
                await self._commit(tickets)
            except asyncio.CancelledError:
                # Only a closing committer is cancelled, and its group may or may not have been committed.
                unknown = CommitUnknown("shut down in the middle of a commit; ask again with the same idempotency key")
                _fail(tickets, unknown)
                raise
            if tickets and tickets[0].weight > self._limits.group_weight and self._waiting.has_others(tickets[0]):
                ended_at = time.monotonic()
                self._rests_until = ended_at + RESTS * min(ended_at - began_at, TOOK_MOST_S)

    async def _roused(self, within_s: float | None = None) -> None:
        """Waits until a call arrives or the committer closes, for `within_s` at most."""
        idle = self._idle = self._loop.create_future()
        timer = None if within_s is None else self._loop.call_later(within_s, wake, idle)
        try:
            await idle
        finally:
            if timer is not None:
                timer.cancel()

    def _take(self) -> list[Ticket]:
        """The next group."""
        rests = not self._is_closing and time.monotonic() < self._rests_until
        tickets = self._waiting.take(self._limits.group_weight, without_heavy=rests)
        if self._standing:
            tickets += self._called_for(tickets)
        return tickets

    def _called_for(self, tickets: list[Ticket]) -> list[Ticket]:
        """Takes the standing claims for whose pools these tickets create jobs."""
        pools = {
            job.spec.pool
            for ticket in tickets
            for command in map(unwrapped, ticket.commands)
            if isinstance(command, Submit)
            for job in command.jobs
        }
        self._standing[:] = [standing for standing in self._standing if not standing.ticket.future.done()]
        called = [
            standing
            for standing in self._standing
            if not standing.pools.isdisjoint(pools)
            and (self._asks is None or self._asks.may_claim_with_submit(standing.pools))
        ]
        for standing in called:
            standing.is_taken = True
            standing.ticket.asked_at = time.monotonic()
            self._standing.remove(standing)
        return [standing.ticket for standing in called]

    async def _commit(self, tickets: list[Ticket]) -> None:
        if not tickets:
            return
        try:
            committed = await self._durably(tickets)
        except Unavailable as error:
            self._troubled(error)
            self._refuse(tickets, f"the database is unavailable: {error}")
        except Exception as error:
            if isinstance(error, CommitUnknown):
                _fail(tickets, error)
            elif len(tickets) > 1:
                # One caller's command broke the group or waits for a lock; it must not fail the others.
                for ticket in tickets:
                    await self._commit([ticket])
            elif isinstance(error, Transient):
                own = f". {YOUR_OWN}" if self.has_callers and isinstance(error, LockHeld) else ""
                self._refuse(tickets, f"another transaction holds rows that this call needs: {error}{own}")
            else:
                _fail(tickets, error)
        else:
            try:
                self._published(committed)
            except Exception:
                log.exception("what was committed could not be made known within this process")
            answers = iter(committed.outcomes)
            for ticket in tickets:
                settle(ticket.future, [next(answers) for _ in ticket.commands])

    def _refuse(self, tickets: list[Ticket], why: str) -> None:
        log.warning("%s", why)
        refusal = Refusal("OVERLOADED", f"{why}; nothing was changed.", retry_after_s=2.0)
        for ticket in tickets:
            settle(ticket.future, [refusal] * len(ticket.commands))

    async def _durably(self, tickets: list[Ticket]) -> Committed:
        """Runs one group until it is committed, or raises: CommitUnknown if the group may have been committed."""
        commands = [command for ticket in tickets for command in ticket.commands]
        wanted = needs(commands)

        def decide_group(snapshot: Snapshot) -> Decision:
            return decide(snapshot, commands, self.policy)

        give_up_at = tickets[0].asked_at + self._limits.give_up_s
        most_tries = self._limits.conflict_tries if len(tickets) == 1 else min(TOGETHER, self._limits.conflict_tries)
        self._number += 1
        tries = 0
        while True:
            tries += 1
            try:
                committed = await self._store.transact(self.id, self._number, wanted, decide_group, self._hints)
            except Transient:
                if tries >= most_tries or time.monotonic() >= give_up_at:
                    raise
            except CommitUnknown as error:
                if await self._was_committed(give_up_at):
                    if error.attempt is None:
                        raise
                    return error.attempt
            except Unavailable as error:
                if isinstance(error, DiskFull):
                    self._full = error
                if self._full is not None:
                    give_up_at = min(give_up_at, tickets[0].asked_at + FULL_S)
                if time.monotonic() >= give_up_at:
                    if self._full not in (None, error):
                        raise DiskFull(f"{self._full}; since then: {error}") from error
                    raise
            else:
                if committed.changes:
                    self._full = None
                return committed
            await self._pause(tries, give_up_at)

    async def _was_committed(self, give_up_at: float) -> bool:
        tries = 0
        while True:
            tries += 1
            try:
                return await self._store.committed(self.id, self._number)
            except Exception as error:
                # No error may be treated as "nothing was committed": the group would be run, and charged, again.
                if not isinstance(error, Transient | Unavailable) or time.monotonic() >= give_up_at:
                    raise CommitUnknown(
                        "the database went away in the middle of a commit and does not tell whether it took place "
                        f"({error}). Ask again with the same idempotency key."
                    ) from error
            await self._pause(tries, give_up_at)

    async def _pause(self, tries: int, give_up_at: float) -> None:
        """No longer than to the time of the last try."""
        left_s = max(self._limits.backoff_s, give_up_at - time.monotonic())
        await asyncio.sleep(min(left_s, pause_s(tries, self._limits.backoff_s, self._limits.backoff_max_s)))


def _overloaded(what: str) -> Refusal:
    return Refusal(
        "OVERLOADED",
        f"{what} wait for the database already; nothing was changed. Try again shortly.",
        retry_after_s=1.0,
    )


_SUBMITTING: Final = (FireSchedule, RunSchedule)
_OF_JOBS: Final = (Submit, EndSession, AdvanceBulkAct, PruneJobs)


def _weight(command: Command) -> int:
    command = unwrapped(command)
    if isinstance(command, _SUBMITTING) and command.submit is not None:
        command = command.submit
    return len(command.jobs) or 1 if isinstance(command, _OF_JOBS) else 1


def _account_of(commands: tuple[Command, ...]) -> str | None:
    """Returns the account that all the commands name; None if they name none, or several."""
    first: str | None = getattr(unwrapped(commands[0]), "account_id", None)
    if first is None or len(commands) == 1:
        return first
    is_one = all(getattr(unwrapped(command), "account_id", None) == first for command in commands)
    return first if is_one else None


def _fail(tickets: list[Ticket], error: Exception) -> None:
    for ticket in tickets:
        fail(ticket.future, error)
