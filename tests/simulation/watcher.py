"""Looks at every commit: what was asked, what was answered, what it changed, and whether all of that is allowed.

Nothing here asks the rules. The watcher keeps books of its own: who holds which job under which epoch, which jobs have
ended and how, which command has been committed. Beside them stand the invariants of the core, over the accounts that
the commit touched.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core import invariants
from ficha.core import outcomes as o
from ficha.core.audit import SYSTEM
from ficha.core.dataset import State
from ficha.core.history import history
from ficha.core.policy import CLOSED_PLAN, MILLISECOND, SECOND, Plan, Policy
from ficha.core.records import Awaiting, Entry, Event, Job, Leased, Parked, Ready
from ficha.core.refunds import part_of
from ficha.core.snapshot import Changes, JobChange
from ficha.core.states import FINAL

from .database import Database, Transaction
from .trace import Trace

CLOSED: Final = Plan(CLOSED_PLAN, max_active=0)
"""The plan of an account that was erased."""


class Watcher:
    """Everything that must hold after every commit."""

    def __init__(self, database: Database, policy: Policy, trace: Trace) -> None:
        self._database = database
        self._policy = policy
        self._trace = trace
        self._committed: dict[int, tuple[c.Command, o.Outcome]] = {}
        """By identity: the outcome of each command that was committed."""
        self._holder: dict[str, int | None] = {}
        """job → the epoch under which a worker, or a provider for it, has it now"""
        self._worker: dict[str, str] = {}
        """job → the worker whose run it is now"""
        self._epochs: defaultdict[str, int] = defaultdict(int)
        self._ended: dict[str, Job] = {}
        self._jobs_of: defaultdict[str, dict[str, Job]] = defaultdict(dict)
        self._entries_of: defaultdict[str, list[Entry]] = defaultdict(list)
        self._events_of: defaultdict[str, list[Event]] = defaultdict(list)
        self.others: list[Callable[[Transaction], Iterator[str]]] = []
        """Whoever else looks at each commit."""
        database.watch = self._watch

    def committed(self, command: c.Command) -> o.Outcome | None:
        """What the command was answered in the commit it was part of."""
        found = self._committed.get(id(command))
        return None if found is None else found[1]

    def _watch(self, transaction: Transaction) -> None:
        changes = transaction.changes
        self._trace.note(f"commit {self._database.commits} by {transaction.process}: {_told(transaction)}")
        for sentence in (
            *self._commands(transaction),
            *self._jumped_the_queue(transaction),
            *self._runs(transaction),
            *self._job_changes(transaction),
            *self._slots(transaction),
            *self._limits(transaction),
            *self._touched(changes),
            *self._lines(transaction),
            *self._live_keys(transaction),
            *(sentence for other in self.others for sentence in other(transaction)),
        ):
            self._trace.fail(sentence)

    # What was asked and answered

    def _commands(self, transaction: Transaction) -> Iterator[str]:
        for command, outcome in zip(transaction.commands, transaction.outcomes, strict=True):
            if id(command) in self._committed:
                yield f"{short(command)} was committed twice"
            self._committed[id(command)] = (command, outcome)
            yield from self._word(c.unwrapped(command), outcome)
            if isinstance(outcome, o.Recovered) and outcome.act in ("requeued", "failed"):
                yield from self._early(transaction, outcome.job_id)
        if all(isinstance(command, c.Claim) for command in transaction.commands):
            yield from self._passed_over(transaction)

    def _word(self, command: Any, outcome: Any) -> Iterator[str]:
        """A worker is heard only under the newest epoch, and only while it holds the job."""
        match command, outcome:
            case ((c.Claim() | c.ClaimJob()), o.Claimed(leases)):
                for lease in leases:
                    yield from self._leased(lease.job.id, lease.epoch)
            case (
                (c.Heartbeat() | c.SaveCheckpoint() | c.SaveStep() | c.Report() | c.Note()),
                (o.Held() | o.StepSaved()),
            ):
                if self._holder.get(command.job_id) != command.epoch:
                    yield self._stale(command)
            case c.Finish(), o.Finished(changed=True):
                if command.epoch is not None and self._holder.get(command.job_id) != command.epoch:
                    yield self._stale(command)
                if self._holder.get(command.job_id) is None:
                    yield f"{short(command)} was accepted, but nobody held the job"
                if not isinstance(command.ending, c.AcceptedByProvider):
                    self._holder[command.job_id] = None
            case c.CancelJob(), o.Finished(changed=True):
                self._holder.update(dict.fromkeys((command.job_id, *command.parts), None))
            case c.Recover(), o.Recovered(act=("requeued" | "failed" | "cancelled")):
                self._holder[command.job_id] = None

    def _leased(self, job_id: str, epoch: int) -> Iterator[str]:
        if self._holder.get(job_id) is not None:
            yield f"job {job_id} was leased under epoch {epoch} while epoch {self._holder[job_id]} held it"
        if epoch <= self._epochs[job_id]:
            yield f"job {job_id} was leased under epoch {epoch} after epoch {self._epochs[job_id]}"
        self._epochs[job_id] = epoch
        self._holder[job_id] = epoch

    def _stale(self, command: Any) -> str:
        return f"{short(command)} was accepted, but the job's holder is epoch {self._holder.get(command.job_id)}"

    def _early(self, transaction: Transaction, job_id: str) -> Iterator[str]:
        """Nobody is taken off a job while the lease stands."""
        now, policy = transaction.snapshot.now, self._policy
        job = transaction.snapshot.jobs[job_id]
        if job is None or not isinstance(job.place, Leased | Awaiting):
            return
        ends_at = job.place.deadline_at
        # A worker's run times out only if a heartbeat has come since the deadline.
        if isinstance(job.place, Leased) and job.place.heartbeat_at < ends_at:
            ends_at = min(job.place.expires_at, job.place.heartbeat_at + policy.stuck_ms * MILLISECOND)
        if job.started_at is not None:
            ends_at = min(ends_at, job.started_at + policy.max_age_ms * MILLISECOND)
        if now < ends_at:
            yield f"job {job_id} was recovered {(ends_at - now) / SECOND:g} s before its time was over"

    def _passed_over(self, transaction: Transaction) -> Iterator[str]:
        """Of what a claim could have taken, it took the best."""
        taken = {change.after.id for change in transaction.changes.jobs}
        for pool, ids in transaction.snapshot.ready.items():
            claimed = [key for key in ids if key in taken]
            if claimed and any(key not in taken for key in ids[: ids.index(claimed[-1])]):
                yield f"a claim passed over a better job of pool {pool}"

    def _jumped_the_queue(self, transaction: Transaction) -> Iterator[str]:
        """A claim beside a submit may take the new job only where no other was ready."""
        for change in transaction.changes.jobs:
            if change.before is None and _takes_slot(change) and change.after.spec.pool in transaction.ready_before:
                yield f"a new job was started in pool {change.after.spec.pool} before those that were ready there"

    def _runs(self, transaction: Transaction) -> Iterator[str]:
        """Each run that began or ended is counted for its worker, in the same commit."""
        counts: Counter[tuple[str, str]] = Counter()
        for command, outcome in zip(map(c.unwrapped, transaction.commands), transaction.outcomes, strict=True):
            if isinstance(outcome, o.Claimed):
                counts.update((lease.worker, "claimed") for lease in outcome.leases)
                self._worker.update({lease.job.id: lease.worker for lease in outcome.leases})
            elif isinstance(command, c.CancelJob) and isinstance(outcome, o.Finished):
                ended = (self._worker.pop(job_id, None) for job_id in (command.job_id, *command.parts))
                counts.update((worker, "cancelled") for worker in ended if worker)
            elif (end := _end(command, outcome)) is not None and (worker := self._worker.pop(outcome.job_id, None)):
                counts[worker, end] += 1
        told = {(tally.worker, tally.kind): tally.runs for tally in transaction.changes.tallies}
        if told != counts:
            yield f"a commit group counted the runs {told}, but they were {dict(counts)}"

    def _lines(self, transaction: Transaction) -> Iterator[str]:
        """Whatever was done in a name is in the audit log, in the same commit, and nothing else is."""
        named = [
            command.actor
            for command, outcome in zip(transaction.commands, transaction.outcomes, strict=True)
            if isinstance(command, c.ActingAs) and not isinstance(outcome, o.Refusal)
        ]
        # What a bulk act does to each job is done in its operator's name by whoever works on it.
        lines = (line for line in transaction.changes.audit if "bulk_act" not in line.details)
        written = [line.actor for line in lines if line.actor != SYSTEM]
        if written != named:
            yield f"a commit group in the names {named} left audit lines of {written}"

    def _live_keys(self, transaction: Transaction) -> Iterator[str]:
        """No key here expires, so those that were not revoked live."""
        for name in {key.name for key in transaction.changes.api_keys}:
            keys = self._database.state.api_keys.values()
            live = sum(key.name == name and key.revoked_at is None for key in keys)
            if live > 2:
                yield f"{live} API keys named {name} live"

    # What it changed

    def _job_changes(self, transaction: Transaction) -> Iterator[str]:
        now = transaction.snapshot.now
        for before, after in ((change.before, change.after) for change in transaction.changes.jobs):
            known = self._jobs_of[after.account_id].get(after.id)
            if before != known:
                yield f"a commit group decided over job {after.id} as {_place(before)}, when it was {_place(known)}"
            end = self._ended.get(after.id)
            if end is not None and _is_given_back(transaction, end, after):
                end = self._ended[after.id] = replace(end, refunded=after.refunded)
            if end is not None and _final(after) != _final(end):
                yield f"job {after.id} had ended as {end.status} and was changed to {after.status}"
            if after.status in FINAL and after.id not in self._ended:
                self._ended[after.id] = after
            if after.epoch < self._epochs[after.id]:
                yield f"the epoch of job {after.id} fell to {after.epoch}"
            if after.recoveries > self._policy.max_recoveries:
                yield f"job {after.id} was recovered {after.recoveries} times"
            if (
                before is not None
                and isinstance(before.place, Parked)
                and before.place.due_at is not None
                and before.place.behind is None
                and isinstance(after.place, Ready | Leased)
                and now < before.place.due_at
            ):
                yield f"job {after.id} was made ready {before.place.due_at - now} µs before its time"

    def _slots(self, transaction: Transaction) -> Iterator[str]:
        """A claim never takes a slot that is not there, nor one of a pool that is paused.

        A pool without a limit is not locked by those who claim from it: whoever looked before it was changed may come
        after.
        """
        taken = {change.after.spec.pool for change in transaction.changes.jobs if _takes_slot(change)}
        for name in sorted(taken):
            pool = self._database.state.pools[name]
            if self._database.pools_changed_at.get(name, 0) > transaction.loaded_at:
                continue
            busy = len(self._database.held[name])
            if pool.limit is not None and busy > pool.limit:
                yield f"a job was started in pool {name}, which has {pool.limit} slots and now {busy} jobs in them"
            if pool.paused:
                yield f"a job was started in pool {name}, which is paused"

    def _limits(self, transaction: Transaction) -> Iterator[str]:
        """Quota and concurrency of plans. A commit group in which an operator overrode them is not judged."""
        commands = map(c.unwrapped, transaction.commands)
        if any(isinstance(command, c.ChangePlan | c.Requeue | c.AdvanceBulkAct) for command in commands):
            return
        now = transaction.snapshot.now
        for account in transaction.changes.accounts:
            plan = self._policy.plans.get(account.plan, CLOSED)
            before = transaction.snapshot.accounts.get(account.id)
            admitted, active = (0, 0) if before is None else (before.admitted, before.active)
            if plan.max_running is not None and admitted < account.admitted > plan.max_running:
                yield f"account {account.id} has {account.admitted} jobs admitted, its plan allows {plan.max_running}"
            if plan.max_active is not None and active < account.active:
                held = sum(
                    1
                    for r in self._database.state.reservations.values()
                    if r.account_id == account.id and r.state == "active" and r.expires_at > now
                )
                mine = (job for job in self._database.state.jobs.values() if job.account_id == account.id)
                requests = len({job.spec.part_of or job.id for job in mine if job.place is not None})
                if requests + held > plan.max_active:
                    yield f"account {account.id} has {requests} requests and {held} reserved of {plan.max_active}"

    def _touched(self, changes: Changes) -> Iterator[str]:
        """The invariants of the core, over the accounts that were touched, with all that is theirs."""
        state = self._database.state
        jobs: dict[str, Job] = {}
        for change in changes.jobs:
            job = change.after
            self._jobs_of[job.account_id][job.id] = job
            jobs[job.id] = job
        for entry in changes.entries:
            self._entries_of[entry.account_id].append(entry)
        for event in changes.events:
            self._events_of[event.job_id].append(event)
        accounts = {account.id for account in changes.accounts} | {job.account_id for job in jobs.values()}
        accounts |= {held.account_id for held in changes.reservations}
        for account_id in sorted(accounts):
            mine = State(
                accounts={account_id: state.accounts[account_id]},
                reservations={key: held for key, held in state.reservations.items() if held.account_id == account_id},
                jobs=self._jobs_of[account_id],
                contents={
                    name: content
                    for name, content in state.contents.items()
                    if content.job_id in self._jobs_of[account_id]
                },
                entries=self._entries_of[account_id],
            )
            yield from invariants.violations(mine)
        yield from invariants._histories(
            State(jobs=jobs, events=[event for job_id in jobs for event in self._events_of[job_id]])
        )
        for job in jobs.values():
            told = history(job, self._database.history.get(job.id, ())) if job.id in state.jobs else None
            if told is not None and told != self._events_of[job.id]:
                yield f"the rows of job {job.id} do not tell its history"
        yield from self._left(changes)

    def _left(self, changes: Changes) -> Iterator[str]:
        """Jobs that have ended may leave; afterwards the books hold as without them."""
        for job_id in changes.forgotten_jobs:
            ended = self._ended.get(job_id)
            if ended is None:
                yield f"job {job_id} left before it ended"
                continue
            del self._jobs_of[ended.account_id][job_id]
            self._events_of.pop(job_id, None)
        gone = (self._ended.get(job_id) for job_id in changes.forgotten_jobs)
        for account_id in sorted({job.account_id for job in gone if job is not None}):
            account, entries = self._database.state.accounts[account_id], self._entries_of[account_id]
            yield from invariants.violations(
                State(accounts={account_id: account}, jobs=self._jobs_of[account_id], entries=entries)
            )


def _end(command: Any, outcome: Any) -> str | None:
    """How a command ended the run of a job, if it did."""
    match command, outcome:
        case c.Finish(ending=c.AcceptedByProvider()), o.Finished(changed=True):
            return "accepted"
        case c.Finish(ending=c.Interrupted(lost=lost)), o.Finished(changed=True, status="queued"):
            return "recovered" if lost else "returned"
        case c.Finish(), o.Finished(changed=True, status="queued"):
            return "retried"
        case (c.Finish(), o.Finished(changed=True, status=status)):
            return str(status)
        case c.Recover(), o.Recovered(act=("requeued" | "failed") as act):
            return "recovered" if act == "requeued" else act
        case _:
            return None


def _takes_slot(change: JobChange) -> bool:
    held_before = change.before is not None and isinstance(change.before.place, Leased | Awaiting)
    return not held_before and isinstance(change.after.place, Leased | Awaiting)


def _final(job: Job) -> Job:
    """What of a job never changes after its end: all but the dead-letter list, the counts, what was removed, and what
    the provider took, which may be told late."""
    counts = {"events": 0, "late_finishes": 0, "callbacks": 0}
    return replace(job, dead_at=None, removed_at=None, checkpoint=None, provider_cost=None, **counts)


def _is_given_back(transaction: Transaction, end: Job, after: Job) -> bool:
    """Whether an operator refunded a job that ended without a refund: all of it, or the part that was asked for."""
    asked: set[str] = set()
    parts = {after.charged}
    for command in map(c.unwrapped, transaction.commands):
        if isinstance(command, c.RefundJob):
            asked.add(command.job_id)
            parts.add(part_of(after.charged, command.amount, command.share))
        elif isinstance(command, c.AdvanceBulkAct):
            asked |= {job_id for job_id, _ in command.jobs}
            parts |= {1, part_of(after.charged, None, "0.5")}
    return after.id in asked and end.refunded == 0 and after.refunded in parts


def _place(job: Job | None) -> str:
    return "absent" if job is None else f"{job.status} (epoch {job.epoch}, {type(job.place).__name__})"


SHORT: Final = 8
"""So many of the last characters of an id are shown."""


def short(command: Any) -> str:
    """A command in a few words."""
    command = c.unwrapped(command)
    name = type(command).__name__
    job_id = getattr(command, "job_id", None)
    epoch = getattr(command, "epoch", None)
    return " ".join(
        [
            name,
            *([f"of job …{job_id[-SHORT:]}"] if job_id else []),
            *([f"under epoch {epoch}"] if epoch is not None else []),
        ]
    )


def _told(transaction: Transaction) -> str:
    return "; ".join(
        f"{short(command)} → {summary(outcome)}"
        for command, outcome in zip(transaction.commands, transaction.outcomes, strict=True)
    )


def summary(outcome: Any) -> str:
    """An outcome in a few words."""
    match outcome:
        case o.Refusal(code):
            return code
        case o.Submitted():
            return f"job …{outcome.job_id[-SHORT:]} {outcome.status}{' again' if outcome.idempotent_hit else ''}"
        case o.Claimed(leases):
            return ", ".join(f"…{lease.job.id[-SHORT:]} under epoch {lease.epoch}" for lease in leases) or "nothing"
        case o.Finished():
            return f"{outcome.status}{'' if outcome.changed else ', unchanged'}, {outcome.refunded} back"
        case o.Recovered():
            return outcome.act
        case o.AccountChanged():
            return f"{outcome.account.id} has {outcome.account.balance}"
        case _:
            return type(outcome).__name__
