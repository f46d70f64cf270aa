"""The engine: routes commands to committers, and publishes what they committed to the rest of the process."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, TypeVar
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from ..core import commands as c
from ..core.decide import decide
from ..core.needs import needs
from ..core.outcomes import Outcome, Refusal, SubmitPreview
from ..core.policy import SECOND, HookTerms, Policy
from ..core.preview import preview
from ..core.records import HELD, AnyKeyed, Awaiting, BulkAct, DeclaredHook, Delivery, Job, Leased, Ready
from ..core.recover import waits
from ..core.rules import RULES
from ..core.snapshot import Changes, Snapshot
from ..store.base import Committed, Decision, GetSnapshot, LockHeld, Query, Store, StoreError, Unavailable
from .clock_watch import ClockWatch
from .committer import CLOSED, YOUR_OWN, CommitLimits, Committer, StandingTicket
from .event_tail import EventTail
from .figures import FigureFolder
from .held_commands import HeldCommands
from .hook_keeper import HookKeeper
from .positions import Positions
from .slices import Slices
from .sweeper import Sweeper, SweepReport
from .trigger import OnWork, ReadyJob, Trigger
from .wakeups import BULK_ACTS, DECLARED_HOOKS, DELIVERIES, EVENTS, HOOKS, POLLS, Wakeups, cancellations

T = TypeVar("T")

SOON: Final = 5 * SECOND
"""A provider poll that is due within this time sends a hint; whoever polls providers finds later ones by itself."""
TOLD_LATER: Final = 1_000
"""Of how many callers' own transactions the jobs are kept until the commit is heard of."""
FEW: Final = 4
"""A group's commit carries its hints only if the group changes at most this many jobs."""


class Trouble(Struct, frozen=True):
    """Why calls were refused, and when, by this process's own clock."""

    error: Unavailable
    at: float


class Engine:
    """One per process and database. `start` it on a running event loop, `stop` it once."""

    def __init__(
        self,
        store: Store,
        policy: Policy,
        limits: CommitLimits | None = None,
        *,
        sweep_interval_s: float = 1.0,
        on_work: OnWork | None = None,
    ) -> None:
        self.store = store
        self.policy = policy
        self.limits = limits or CommitLimits()
        trigger = self._trigger = None if on_work is None else Trigger(on_work)
        self.wakeups = Wakeups(store, None if trigger is None else self._committed_within)
        self._told_later: dict[str, list[ReadyJob]] = {}
        """The jobs of calls within callers' own transactions, by the hint that comes with the commit."""
        self.live = EventTail(store, self.wakeups)
        self.positions = Positions(store)
        self.slices = Slices()
        self.figures = FigureFolder(self)
        self.clock = ClockWatch(self)
        self.sweeper = Sweeper(self, interval_s=sweep_interval_s)
        self.hooks = HookKeeper(self)
        self.trouble: Trouble | None = None
        """Why the last calls were refused; None once something was committed."""
        self._committers: list[Committer] = []

    async def start(self, *, sweep: bool = True, listen: bool = True) -> None:
        """Begins to take commands. With `sweep=False`, sweeps start only when a call or read finds one due; with
        `listen=False`, no hints from other processes are received."""
        standing: list[StandingTicket] = []
        self._committers = [
            Committer(self.store, self.policy, self.limits, self._published, self._troubled, self._hints, standing)
            for _ in range(self.store.committers)
        ]
        if listen:
            self.wakeups.start()
        if sweep:
            self.sweeper.start()

    async def stop(self, grace_s: float = 10.0) -> None:
        """Answers or refuses all waiting calls, within the grace."""
        await self.live.stop()
        await self.hooks.stop()
        await self.sweeper.stop(grace_s)
        await asyncio.gather(*(committer.close(grace_s) for committer in self._committers))
        await self.wakeups.stop()
        await self.positions.stop()
        if self._trigger is not None:
            await self._trigger.stop()

    def owe(self, hooks: tuple[HookTerms, ...]) -> None:
        """From now on, jobs that end in this process owe these hooks."""
        if hooks != self.policy.hooks:
            self.policy = replace(self.policy, hooks=hooks)
            for committer in self._committers:
                committer.policy = self.policy

    async def call(self, command: c.Command) -> Outcome:
        """Returns the outcome of one command, once it is committed."""
        return (await self._committer(command).call((command,)))[0]

    def stand(self, claim: c.Claim) -> StandingTicket:
        """Leaves a claim with the committers: a submit of this process and the claim of its job then share one
        transaction, where the store says that this delays nobody."""
        return self._committers[0].stand(claim)

    async def call_many(self, commands: Sequence[c.Command]) -> list[Outcome]:
        """Returns the outcome of each command, in order. A refused command does not affect the others.

        Each committer gets its commands in parts of at most one group, one part after the other, so that a large call
        neither fills the queue nor keeps others out of it.
        """
        outcomes: list[Outcome] = [CLOSED] * len(commands)
        by_committer: dict[int, list[int]] = {}
        for index, command in enumerate(commands):
            by_committer.setdefault(_committer_number(command, len(self._committers)), []).append(index)

        async def send(number: int, indices: list[int]) -> None:
            share = max(1, min(self.limits.group_weight, self.limits.waiting_weight // 2))
            for start in range(0, len(indices), share):
                part = indices[start : start + share]
                answers = await self._committers[number].call(tuple(commands[index] for index in part))
                for index, answer in zip(part, answers, strict=True):
                    outcomes[index] = answer

        self.sweeper.nudge()
        await asyncio.gather(*(send(number, indices) for number, indices in by_committer.items()))
        return outcomes

    async def call_within(self, connection: Any, command: c.Command) -> tuple[Changes, Outcome]:
        """Runs a command inside the caller's own transaction; returns its changes and outcome, which become true when
        the caller commits.

        This process learns of that commit only from its hints, so they always go out with it, to this process too.
        """
        self.sweeper.nudge()
        if isinstance(connection, HeldCommands):
            return await connection.hold(self, command)
        try:
            committed = await self.store.transact_within(
                connection,
                needs([command]),
                lambda snapshot: decide(snapshot, [command], self.policy),
                self._hints_within,
            )
        except LockHeld as error:
            if any(committer.has_callers for committer in self._committers):
                error.args = (f"{error} {YOUR_OWN}.",)
            raise
        for committer in self._committers:
            committer.has_callers = True
        self.sweeper.expect(wait / SECOND for wait in waits(committed.changes))
        return committed.changes, committed.outcomes[0]

    async def call_together(self, commands: Sequence[c.Command]) -> None:
        """Commits all of them in one transaction, or none if one would be refused."""

        def decided(snapshot: Snapshot) -> Decision:
            changes, outcomes = decide(snapshot, commands, self.policy)
            refusal = next((outcome for outcome in outcomes if isinstance(outcome, Refusal)), None)
            if refusal is not None:
                raise StoreError(f"another call came in between, so nothing was kept: {refusal.message}")
            return changes, outcomes

        self._published(await self.store.transact(str(uuid.uuid4()), 1, needs(commands), decided))

    async def read(self, query: Query[T]) -> T:
        """Returns the store's answer to a query; like a call, it may start a sweep."""
        self.sweeper.nudge()
        return await self.store.read(query)

    async def preview(self, command: c.Submit, counts: Sequence[int], *, unknown: int = 0) -> SubmitPreview | Refusal:
        """Returns what a submit would lead to, judged by the current rows (see `core/preview.py`). Changes and locks
        nothing."""
        snapshot = await self.store.read(GetSnapshot(needs([command])))
        return preview(snapshot, command, counts, self.policy, unknown=unknown)

    async def sweep(self, actor: str | None = None) -> SweepReport:
        """Recovers and cleans up now, whoever leads; with `actor`, recoveries are audited in that name."""
        return await self.sweeper.sweep(actor)

    def _committer(self, command: c.Command) -> Committer:
        self.sweeper.nudge()
        return self._committers[_committer_number(command, len(self._committers))]

    def _hints(self, changes: Changes) -> Collection[str]:
        """The hints that the commit itself carries to other processes: only those of small groups, in quiet times."""
        return self.wakeups.riding(_stirred(changes)) if len(changes.jobs) <= FEW and self.wakeups.is_quiet else ()

    def _hints_within(self, changes: Changes) -> Collection[str]:
        if self._trigger is None or not (pools := _pools_with_work(changes)):
            return {*_stirred(changes)}
        token = uuid.uuid4().hex
        self._told_later[token] = _ready_jobs(changes)
        if len(self._told_later) > TOLD_LATER:
            # The oldest was most likely rolled back.
            del self._told_later[next(iter(self._told_later))]
        return {*_stirred(changes), *(self.wakeups.own(f"{token} {pool}") for pool in pools)}

    def _committed_within(self, hint: str) -> None:
        """Called when a caller's own transaction commits in which this process brought work to a pool."""
        assert self._trigger is not None
        token, _, pool = hint.partition(" ")
        self._trigger.fire({pool}, self._told_later.pop(token, ()))

    def _troubled(self, error: Unavailable) -> None:
        self.trouble = Trouble(error, time.monotonic())

    def _published(self, committed: Committed) -> None:
        changes = committed.changes
        if changes:
            self.trouble = None
        self.positions.follow(changes)
        self.wakeups.announce(_stirred(changes), committed.hints)
        self.sweeper.expect(wait / SECOND for wait in waits(changes))
        if self._trigger is not None:
            self._trigger.fire(_pools_with_work(changes), _ready_jobs(changes))


def _committer_number(command: c.Command, committers: int) -> int:
    """Returns which committer a command goes to.

    The last committer takes the commands that lock no account. The others share the accounts by hash, so that two
    groups of this process do not wait for each other's account locks; a command that names only a job goes by the job's
    hash.
    """
    if committers == 1:
        return 0
    command = c.unwrapped(command)
    if not RULES[type(command)].locks_account:
        return committers - 1
    owner: str = getattr(command, "account_id", None) or getattr(command, "job_id", None) or ""
    return crc32(owner.encode()) % (committers - 1)


def _pools_with_work(changes: Changes) -> set[str]:
    """Returns the pools where a changed job is ready, or its provider called back and its result is to be collected."""
    return {
        change.after.spec.pool
        for change in changes.jobs
        if type(change.after.place) is Ready
        or (type(change.after.place) is Awaiting and _is_called_back(change.before, change.after))
    }


def _ready_jobs(changes: Changes) -> list[ReadyJob]:
    """Returns the changed jobs that may be claimed now."""
    return [
        ReadyJob(change.after.id, change.after.spec.tool, change.after.spec.pool)
        for change in changes.jobs
        if type(change.after.place) is Ready and not (change.before is not None and type(change.before.place) is Ready)
    ]


def _stirred(changes: Changes) -> Iterable[str]:
    """Returns the topics to wake: pools where a claim may now find a job (one is ready, a slot became free, or the pool
    was changed), workers whose job was cancelled, and the topics of events, hooks, provider polls, webhooks and bulk
    acts."""
    names = {pool.name for pool in changes.pools}
    if changes.events:
        names.add(EVENTS)
    if any(not hook.attempts for hook in changes.hooks):
        names.add(HOOKS)
    if any(_is_new_message(record) for record in changes.keyed):
        names.add(DELIVERIES)
    if any(type(record) is BulkAct and not record.holds for record in changes.keyed):
        names.add(BULK_ACTS)
    if any(type(record) is DeclaredHook for record in changes.keyed) or any(
        kind == DeclaredHook.__name__ for kind, _ in changes.removed_keyed
    ):
        names.add(DECLARED_HOOKS)
    for change in changes.jobs:
        before, after = change.before, change.after
        if type(after.place) is Ready or _frees_slot(before, after):
            names.add(after.spec.pool)
        if after.status == "cancelled" and before is not None and type(before.place) is Leased:
            names.add(cancellations(before.place.worker))
        if type(after.place) is Awaiting and _is_soon_asked(before, after, after.place):
            names.add(POLLS)
    return names


def _is_soon_asked(before: Job | None, after: Job, place: Awaiting) -> bool:
    """Returns whether a provider is to be polled before the next regular look at what is due: it called back, or it
    accepted a job just now and its first poll is soon."""
    is_accepted = before is not None and type(before.place) is Leased
    is_soon = place.poll_at is not None and place.poll_at - place.since_at < SOON
    return (is_accepted and is_soon) or _is_called_back(before, after)


def _is_called_back(before: Job | None, after: Job) -> bool:
    """Whether a provider that has accepted the job has called back."""
    is_accepted = before is not None and type(before.place) is Leased
    return after.callbacks > 0 and (is_accepted or before is None or after.callbacks > before.callbacks)


def _is_new_message(record: AnyKeyed) -> bool:
    return type(record) is Delivery and record.state == "pending" and record.attempts == record.earlier_attempts


def _frees_slot(before: Job | None, after: Job) -> bool:
    held = before is not None and isinstance(before.place, HELD)
    return held and not isinstance(after.place, HELD)
