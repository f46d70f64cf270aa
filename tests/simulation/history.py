"""What callers were told, and whether it was true: when they were told it, and in the end.

`TellingEngine` is the engine with one addition: it hands every answer to the history, as the caller gets it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from ficha.core import commands as c
from ficha.core import outcomes as o
from ficha.core.dataset import State
from ficha.core.records import Awaiting, Job, Leased
from ficha.core.states import FINAL
from ficha.engine.engine import Engine
from ficha.store.base import CommitUnknown

from .trace import Trace
from .watcher import Watcher, short, summary


class History:
    """Everything that anybody sent and was told."""

    def __init__(self, watcher: Watcher, trace: Trace) -> None:
        self._watcher = watcher
        self._trace = trace
        self.sent: Counter[tuple[str, str, str | None]] = Counter()
        """account, mark in the payload, and idempotency key → how many submits of it were sent"""
        self.told: list[tuple[Any, Any]] = []
        self.seen_ended: dict[str, str] = {}
        """job → the final state that a reader saw"""

    def send(self, account_id: str, mark: str, key: str | None) -> None:
        """A client sends a submit now, once or, with a key, as often as it needs to."""
        self.sent[account_id, mark, key] += 1

    def hear(self, command: c.Command, outcome: Any) -> None:
        """A caller is told an outcome now."""
        if self._trace.wrong:
            return
        committed = self._watcher.committed(command)
        self.told.append((c.unwrapped(command), outcome))
        if committed is None:
            if _says_changed(outcome):
                self._trace.fail(f"{short(command)} was told {summary(outcome)}, which was not committed")
        elif committed is not outcome:
            self._trace.fail(f"{short(command)} was told {summary(outcome)}, committed was {summary(committed)}")

    def fail(self, command: c.Command, error: Exception) -> None:
        """A caller gets an exception. Only an unknown commit may leave open what became of the command."""
        committed = self._watcher.committed(command)
        if self._trace.wrong or isinstance(error, CommitUnknown) or committed is None:
            return
        self._trace.fail(f"{short(command)} was told {error!r}, but it was committed: {summary(committed)}")

    def read(self, job_id: str, status: str) -> None:
        """A reader saw the job so."""
        before = self.seen_ended.get(job_id)
        if before is not None and status != before:
            self._trace.fail(f"job {job_id} was seen {before}, and later {status}")
        if status in FINAL:
            self.seen_ended[job_id] = status

    def untrue(self, state: State) -> Iterator[str]:
        """What of all this is not so in the end."""
        yield from self._unexpected(state)
        yield from self._submits(state)
        yield from self._requeues(state)
        yield from self._keys(state)
        yield from self._endings(state)
        yield from self._grants(state)
        yield from self._steps(state)
        yield from _results(state)
        for job_id, status in self.seen_ended.items():
            if state.jobs[job_id].status != status:
                yield f"job {job_id} was seen {status} and is {state.jobs[job_id].status}"

    def _unexpected(self, state: State) -> Iterator[str]:
        """A payload leads to one job or batch for each key that it was sent with, and for each time without a key.

        The key of a submit that was refused is free. Whoever then sends an earlier payload with it gets a second job.
        """
        keys = {key.batch_id or key.job_id: key.key for key in state.keys.values() if key.scope == "submit"}
        made: defaultdict[tuple[str, str, str | None], set[str]] = defaultdict(set)
        for job in state.jobs.values():
            if job.requeue_of is None:
                submit = job.batch_id or job.id
                made[job.account_id, json.loads(state.payloads[job.id])["mark"], keys.get(submit)].add(submit)
        for (account_id, mark, key), submits in made.items():
            sent, count = self.sent[account_id, mark, key], len(submits)
            if count > (sent if key is None else min(sent, 1)):
                of = f"{mark} of {account_id}, sent {sent} times with the key {key},"
                yield f"the submit {of} led to {count} jobs or batches"

    def _submits(self, state: State) -> Iterator[str]:
        batches: defaultdict[str, list[Job]] = defaultdict(list)
        for job in state.jobs.values():
            if job.batch_id is not None and job.requeue_of is None:
                batches[job.batch_id].append(job)
        for command, outcome in self.told:
            if not isinstance(outcome, o.Submitted):
                continue
            first = state.jobs.get(outcome.job_id)
            if first is None:
                yield f"a caller was told of job {outcome.job_id}, which does not exist"
            elif isinstance(command, c.Submit):
                jobs = [first] if outcome.batch_id is None else batches[outcome.batch_id]
                charged = sum(job.charged for job in jobs)
                if any(job.account_id != command.account_id for job in jobs):
                    yield f"a caller was told of job {first.id} of another account"
                if len(jobs) != outcome.jobs:
                    yield f"a caller was told of {outcome.jobs} jobs with job {first.id}; there are {len(jobs)}"
                if charged != outcome.cost:
                    yield f"a caller was told that job {first.id} costs {outcome.cost}, charged were {charged}"

    def _requeues(self, state: State) -> Iterator[str]:
        made = Counter(job.requeue_of for job in state.jobs.values() if job.requeue_of is not None)
        told = Counter(
            command.job_id
            for command, outcome in self.told
            if isinstance(command, c.Requeue | c.Resubmit) and isinstance(outcome, o.Submitted)
        )
        for job_id, count in made.items():
            if count > 1:
                yield f"job {job_id} was requeued {count} times"
        for job_id, count in told.items():
            if count > 1:
                yield f"{count} callers were told that they requeued job {job_id}"

    def _keys(self, state: State) -> Iterator[str]:
        answers: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        made: Counter[tuple[str, str]] = Counter()
        for command, outcome in self.told:
            if isinstance(command, c.Submit) and command.key is not None and isinstance(outcome, o.Submitted):
                answers[command.account_id, command.key].add(outcome.job_id)
                made[command.account_id, command.key] += not outcome.idempotent_hit
        for key, jobs in answers.items():
            if len(jobs) > 1:
                yield f"the key {key} led to {len(jobs)} jobs"
            if made[key] > 1:
                yield f"{made[key]} callers were told that the key {key} was new"

    def _endings(self, state: State) -> Iterator[str]:
        enders: Counter[str] = Counter()
        givers: Counter[str] = Counter()
        given_back = {event.job_id for event in state.events if event.kind == "refunded"}
        for command, outcome in self.told:
            match outcome:
                case o.Finished(job_id=job_id) if isinstance(command, c.RefundJob):
                    givers[job_id] += outcome.changed
                    if outcome.refunded != state.jobs[job_id].refunded:
                        yield f"an operator was told that job {job_id} got {outcome.refunded} back"
                case o.Finished(refunded=refunded) if isinstance(command, c.CancelJob) and command.parts:
                    parts = [state.jobs[job_id] for job_id in (command.job_id, *command.parts)]
                    if any(part.status not in FINAL for part in parts):
                        yield f"a caller was told that job {command.job_id} was cancelled; a part of it has not ended"
                    if refunded > sum(part.refunded for part in parts):
                        yield f"a caller was told that all parts of job {command.job_id} got {refunded} back"
                case o.Finished(job_id=job_id, status=status, refunded=refunded) if status in FINAL:
                    job = state.jobs[job_id]
                    enders[job_id] += outcome.changed
                    # An operator may have given it back since.
                    was_refunded = 0 if job_id in given_back and refunded == 0 else job.refunded
                    if (job.status, was_refunded) != (status, refunded):
                        yield (
                            f"a caller was told that job {job_id} is {status} with {refunded} refunded; "
                            f"it is {job.status} with {job.refunded}"
                        )
                    completed = outcome.changed and isinstance(getattr(command, "ending", None), c.Completed)
                    if completed and state.results.get(job_id) != command.ending.result_json:
                        yield f"the result that completed job {job_id} is not the one stored"
                case o.Recovered(job_id=job_id, act=("failed" | "cancelled") as status, refunded=refunded):
                    job = state.jobs[job_id]
                    enders[job_id] += 1
                    if (job.status, job.refunded) != (status, refunded):
                        yield f"a sweeper was told that job {job_id} is {status}; it is {job.status}"
        for job_id, count in enders.items():
            if count > 1:
                yield f"{count} callers were told that they ended job {job_id}"
        for job_id, count in givers.items():
            if count > 1:
                yield f"{count} operators were told that they refunded job {job_id}"

    def _grants(self, state: State) -> Iterator[str]:
        """Each credit has its own reason, so that its entry can be found."""
        entries = Counter(entry.reason for entry in state.entries if entry.kind in ("grant", "adjust"))
        for reason, count in entries.items():
            if reason != "opening balance" and count > 1:
                yield f"the credit {reason} was paid out {count} times"
        for command, outcome in self.told:
            if isinstance(command, c.Credit) and isinstance(outcome, o.AccountChanged) and not entries[command.reason]:
                yield f"a caller was told of the credit {command.reason}, which was not paid out"

    def _steps(self, state: State) -> Iterator[str]:
        for _, outcome in self.told:
            if isinstance(outcome, o.StepSaved):
                stored = state.steps.get((outcome.job_id, outcome.name))
                if stored is None or stored.result != outcome.result_json:
                    told = outcome.result_json
                    yield f"{outcome.name} of job {outcome.job_id} was told as {told}, stored is {stored}"


def _results(state: State) -> Iterator[str]:
    """A result that was made for one account is another's only where the tool shares results."""
    for job_id, text in state.results.items():
        job, result = state.jobs[job_id], json.loads(text)
        made_for = result.get("made_for") if isinstance(result, dict) else None
        if made_for not in (None, job.account_id) and job.spec.tool != "shared":
            yield f"job {job_id} of {job.account_id} was served a result that was made for {made_for}"


def unfinished(state: State) -> Iterator[str]:
    """What is left over where nothing should be: the faults stopped long ago."""
    for job in state.jobs.values():
        if job.status not in FINAL:
            yield f"job {job.id} is still {job.status} ({job.place})"
        if isinstance(job.place, Leased | Awaiting):
            yield f"job {job.id} still holds a slot of pool {job.spec.pool}"
    for held in state.reservations.values():
        if held.state == "active":
            yield f"reservation {held.id} still holds a place in the quota of account {held.account_id}"
    for hook in state.hooks.values():
        yield f"the hook {hook.name} is still to be run for job {hook.job_id}, after {hook.attempts} attempts"
    for account in state.accounts.values():
        if account.active or account.admitted or account.parked:
            yield f"account {account.id} still counts {account.active} active jobs"


def _says_changed(outcome: Any) -> bool:
    """Whether an answer claims that something was done; such an answer needs a commit."""
    match outcome:
        case o.Claimed(leases):
            return bool(leases)
        case o.Submitted():
            return not outcome.idempotent_hit
        case o.AccountChanged(repeated=repeated):
            return not repeated
        case o.Finished(changed=changed) | o.ReservationChanged(changed=changed):
            return changed
        case o.HookHeld(hook):
            return hook is not None
        case o.PollHeld(job):
            return job is not None
        case o.DeliveryHeld(delivery):
            return delivery is not None
        case (
            o.HookEnded(changed)
            | o.Forgotten(changed)
            | o.Discarded(changed=changed)
            | o.ApiKeyChanged(changed=changed)
            | o.BreakerChanged(changed=changed)
            | o.FileChanged(changed=changed)
            | o.EndpointChanged(changed=changed)
            | o.DeliveryChanged(changed=changed)
            | o.DeliveriesMade(changed=changed)
            | o.DeliveryEnded(changed=changed)
            | o.SessionChanged(changed=changed)
            | o.SessionHeard(changed)
            | o.SessionEnded(changed=changed)
            | o.BulkActChanged(changed=changed)
        ):
            return changed
        case o.Recovered(act=act):
            return act != "nothing"
        case o.Elected(leads=leads):
            return leads
        case o.Held() | o.StepSaved() | o.Seen() | o.CallbackNoted():
            return True
        case _:
            return False


class TellingEngine(Engine):
    """The engine, overheard."""

    history: ClassVar[History]

    async def call(self, command: c.Command) -> o.Outcome:
        try:
            outcome = await super().call(command)
        except Exception as error:
            self.history.fail(command, error)
            raise
        self.history.hear(command, outcome)
        return outcome

    async def call_many(self, commands: Sequence[c.Command]) -> list[o.Outcome]:
        outcomes = await super().call_many(commands)
        for command, outcome in zip(commands, outcomes, strict=True):
            self.history.hear(command, outcome)
        return outcomes
