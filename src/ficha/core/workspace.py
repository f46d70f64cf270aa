"""The state of a commit group while it is decided: the snapshot, changed command by command.

Everything a rule reads or writes goes through here. Reading what `needs` did not name is a bug and raises `NotLoaded`.
`put_job` also updates the counters of the account and the worker, the pool's occupied slots and the lists of claimable
jobs, so that no rule has to.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from .account_counts import counts_of, holds_slot
from .claimable import Claimable
from .history import QUOTING, is_ordinary, without_quotes
from .loaded import Loaded, NotLoaded
from .measures import EndedCall
from .policy import Plan, Policy
from .records import (
    Account,
    AccountRows,
    AnyKeyed,
    ApiKey,
    ApiKeyUse,
    AuditLine,
    Batch,
    Content,
    ContentName,
    Entry,
    Event,
    FileUsage,
    HookName,
    Job,
    JobSpec,
    Key,
    Keyed,
    KeyedName,
    KeyName,
    Leased,
    PendingHook,
    Place,
    Pool,
    Reservation,
    Step,
    Tally,
    TallyKind,
    Worker,
)
from .snapshot import Changes, JobChange, Snapshot
from .worker_counts import run_counted

R = TypeVar("R", bound=Keyed)
V = TypeVar("V")


_NOTHING: Final[Loaded[str, Any]] = Loaded()
"""For the rare kinds of rows, of which most commit groups load none. Only loaded rows change, so it stays empty."""


class Workspace:
    """A snapshot with the changes of the commands so far; `changes()` returns them."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.now = snapshot.now
        self.policy = policy
        self._accounts = Loaded(snapshot.accounts)
        self._jobs = Loaded(snapshot.jobs)
        self._payloads = Loaded(snapshot.payloads)
        self._steps = Loaded(snapshot.steps)
        self._keys = Loaded(snapshot.keys)
        self._reservations = Loaded(snapshot.reservations)
        self._reservations_of = Loaded(
            {account: {r.id: r for r in found} for account, found in snapshot.reservations_of.items()}
        )
        self._pools = Loaded(snapshot.pools)
        self._occupied = Loaded(snapshot.occupied)
        self._contents = Loaded(snapshot.contents)
        self._keyed = Loaded(snapshot.keyed)
        self._batches = Loaded(snapshot.batches) if snapshot.batches else _NOTHING
        self._api_keys = Loaded(snapshot.api_keys) if snapshot.api_keys else _NOTHING
        self._api_keys_of = _by_id(snapshot.api_keys_of) if snapshot.api_keys_of else _NOTHING
        self._hooks_of = (
            Loaded({job_id: {hook.name: hook for hook in found} for job_id, found in snapshot.hooks_of.items()})
            if snapshot.hooks_of
            else _NOTHING
        )
        self._parts_of: dict[str, Counter[str]] = (
            {account: Counter(found) for account, found in snapshot.parts_of.items()} if snapshot.parts_of else {}
        )
        self._loaded = snapshot
        self._recounted: set[str] = set()
        self.claimable = Claimable(self._jobs, snapshot.ready, snapshot.parked)
        self._jobs_before: dict[str, Job | None] = {}
        self._forgotten_jobs: dict[str, Job] = {}
        """The deleted jobs, each as it was last."""
        self._changed_accounts: dict[str, None] = {}
        self._changed_keys: dict[KeyName, None] = {}
        self._changed_reservations: dict[str, None] = {}
        self._changed_pools: dict[str, None] = {}
        self._changed_keyed: dict[KeyedName, None] = {}
        self._contents_before: dict[ContentName, bool] = {}
        """The changed contents: whether each had a row before."""
        self._changed_api_keys: dict[str, None] = {}
        self._api_key_uses: dict[str, ApiKeyUse] = {}
        self._workers: dict[str, Worker] = {}
        self._tallies: dict[tuple[str, TallyKind], list[int]] = {}
        self._changed_hooks: dict[HookName, PendingHook | None] = {}
        self._changes = Changes()
        self.calls: list[EndedCall] = []
        """Requests to providers that ended."""

    def changes(self) -> Changes:
        """What the commands so far change. A key that was added and removed in the same group is not written."""
        changes = self._changes
        changes.accounts = [self._known(self._accounts[key]) for key in self._changed_accounts]
        changes.jobs = [
            JobChange(before, self._known(self._jobs[key] or self._forgotten_jobs[key]))
            for key, before in self._jobs_before.items()
        ]
        keys = [(name, self._keys[name]) for name in self._changed_keys]
        changes.keys = [key for _, key in keys if key is not None]
        changes.forgotten_keys = [name for name, key in keys if key is None]
        held = [(key, self._reservations[key]) for key in self._changed_reservations]
        changes.reservations = [reservation for _, reservation in held if reservation is not None]
        changes.forgotten_reservations = [key for key, reservation in held if reservation is None]
        changes.pools = [self._known(self._pools[key]) for key in self._changed_pools]
        changes.workers = [*self._workers.values()]
        changes.tallies = [Tally(*name, *counts) for name, counts in self._tallies.items()]
        for name in self._changed_keyed:
            if (record := self._keyed[name]) is None:
                changes.removed_keyed.append(name)
            else:
                changes.keyed.append(record)
        if self._contents_before:
            self._list_contents(changes)
        if self._changed_api_keys:
            changes.api_keys = [self._known(self._api_keys[key]) for key in self._changed_api_keys]
        if self._api_key_uses:
            changes.api_key_uses = [*self._api_key_uses.values()]
        if self._changed_hooks:
            changes.hooks = [hook for hook in self._changed_hooks.values() if hook is not None]
            changes.ended_hooks = [name for name, hook in self._changed_hooks.items() if hook is None]
        return changes

    def _list_contents(self, changes: Changes) -> None:
        for name, was_there in sorted(self._contents_before.items()):
            content = self._contents[name]
            if content is not None and (was_there or content.result is not None):
                changes.contents.append(content)
            elif content is not None:
                changes.begun_contents.append(content)
            elif was_there:
                changes.forgotten_contents.append(name)

    @staticmethod
    def _known(value: V | None) -> V:
        assert value is not None
        return value

    # Accounts and the ledger

    def account(self, account_id: str) -> Account | None:
        return self._accounts[account_id]

    def owner(self, job: Job) -> Account:
        """The account of a job; it always exists."""
        return self._known(self._accounts[job.account_id])

    def put_account(self, account: Account) -> None:
        self._accounts[account.id] = account
        self._changed_accounts[account.id] = None

    def plan(self, account: Account) -> Plan | None:
        return self.policy.plans.get(account.plan)

    def as_loaded(self, account_id: str) -> tuple[Account | None, FileUsage, AccountRows] | None:
        """Returns the account, its file usage and its counted rows as they were loaded, before any command of the
        group; None from the second call on. The group's commands keep the counters in step with the rows, so a
        difference at the start is the difference now."""
        if account_id in self._recounted:
            return None
        self._recounted.add(account_id)
        if account_id not in self._loaded.rows_of:
            raise NotLoaded(f"the rows of {account_id!r} were not loaded: `needs` must name it")
        usage = self._loaded.keyed.get((FileUsage.__name__, account_id))
        assert usage is None or isinstance(usage, FileUsage)
        return self._loaded.accounts[account_id], usage or FileUsage(account_id), self._loaded.rows_of[account_id]

    def add_entry(self, entry: Entry) -> None:
        self._changes.entries.append(entry)

    def empty_reason(self, account_id: str, number: int) -> None:
        """Removes the reason of a ledger line; its amounts stay."""
        self._changes.emptied_entries.append((account_id, number))

    def empty_words(self, account_id: str, number: int) -> None:
        """Removes the words of an audit line; who did what and when stays."""
        self._changes.emptied_audit.append((account_id, number))

    # Jobs

    def job(self, job_id: str) -> Job | None:
        return self._jobs[job_id]

    def payload(self, job_id: str) -> str:
        return self._payloads[job_id]

    def add_job(self, job: Job, payload: str) -> None:
        """Adds a new job."""
        assert self._jobs.get(job.id) is None, f"the id {job.id} is taken"
        self._jobs[job.id] = job
        self._jobs_before[job.id] = None
        self._payloads[job.id] = payload
        self._changes.payloads[job.id] = payload
        self._follow(job, None, job.place)

    def put_job(self, job: Job) -> None:
        """Sets the job's new value, and updates everything that depends on its place."""
        before = self._jobs[job.id]
        self._jobs_before.setdefault(job.id, before)
        self._jobs[job.id] = job
        old = None if before is None else before.place
        if old != job.place:
            self._follow(job, old, job.place)
            if before is not None and (type(old) is Leased) is not (type(job.place) is Leased):
                self._tally(before, job)

    def _tally(self, before: Job, after: Job) -> None:
        """Counts a run that began or ended."""
        worker, kind, busy_us = run_counted(before, after, self.now)
        counts = self._tallies.get((worker, kind))
        if counts is None:
            self._tallies[worker, kind] = [1, busy_us]
        else:
            counts[0] += 1
            counts[1] += busy_us

    def _follow(self, job: Job, old: Place | None, new: Place | None) -> None:
        """Updates counters and lists after a job moved from one place to another."""
        if new is None and self.policy.hooks:
            self._owe_hooks(job)
        self._count(job, old, new)
        if job.spec.pool in self._occupied:
            self._occupied[job.spec.pool] += holds_slot(new) - holds_slot(old)
        if job.spec.content_hash is not None and holds_slot(old) and not holds_slot(new):
            self._set_content((job.spec.tool, job.spec.content_hash), None, was_there=True)
        self.claimable.add(job)

    def _owe_hooks(self, job: Job) -> None:
        """Adds a pending run of every hook that the policy has for jobs that end like this one."""
        for terms in self.policy.hooks:
            if job.status in terms.ends and (terms.tools is None or job.spec.tool in terms.tools):
                self.put_hook(PendingHook(terms.name, job.id, self.now))

    def _count(self, job: Job, old: Place | None, new: Place | None) -> None:
        was, counts = counts_of(old), counts_of(new)
        if self._parts_of and job.spec.part_of is not None and job.account_id in self._parts_of:
            self._parts_of[job.account_id][job.spec.part_of] += counts[0] - was[0]
        if was != counts:
            account = self.owner(job)
            latest = None if new is None and account.latest_job == job.id else account.latest_job
            self.put_account(
                replace(
                    account,
                    active=account.active + counts[0] - was[0],
                    admitted=account.admitted + counts[1] - was[1],
                    parked=account.parked + counts[2] - was[2],
                    latest_job=latest,
                )
            )

    def open_requests(self, account_id: str) -> dict[str, int]:
        """The account's split requests that have active parts, each with their number."""
        if account_id not in self._parts_of:
            raise NotLoaded(f"the parts of {account_id!r} were not loaded: `needs` must name it")
        return {request: parts for request, parts in self._parts_of[account_id].items() if parts}

    def put_result(self, job_id: str, result: str) -> None:
        self._changes.results[job_id] = result

    def forget_payload(self, job_id: str, empty: str) -> None:
        """Puts `empty` in place of the job's payload."""
        self._changes.payloads[job_id] = self._payloads[job_id] = empty

    def forget_texts(self, job_id: str, empty: str) -> None:
        """Puts `empty` in place of the job's payload and result, deletes its steps, and empties what its history quotes
        of them. This includes what the group has written of them so far."""
        changes = self._changes
        changes.payloads[job_id] = self._payloads[job_id] = empty
        changes.results[job_id] = empty
        changes.forgotten_steps.append(job_id)
        changes.emptied_events += [(job_id, kind) for kind in QUOTING]
        changes.steps = [step for step in changes.steps if step.job_id != job_id]
        changes.history = [without_quotes(event) if event.job_id == job_id else event for event in changes.history]

    def forget_job(self, job: Job) -> None:
        """Deletes a job that has ended, with its texts, checkpoint, steps, history and hooks. This includes what the
        group has written of it so far, but followers still get those events."""
        assert job.place is None, f"job {job.id} has not ended"
        changes = self._changes
        self._forgotten_jobs[job.id], self._jobs[job.id] = job, None
        changes.forgotten_jobs.append(job.id)
        changes.payloads.pop(job.id, None)
        changes.results.pop(job.id, None)
        changes.steps = [step for step in changes.steps if step.job_id != job.id]
        changes.history = [event for event in changes.history if event.job_id != job.id]
        changes.forgotten_steps = [job_id for job_id in changes.forgotten_steps if job_id != job.id]
        changes.emptied_events = [name for name in changes.emptied_events if name[0] != job.id]
        for _, hook in sorted(self._hooks_of[job.id].items()):
            self.end_hook(hook)

    def add_event(self, job: Job, kind: str, **data: Any) -> None:
        """Adds the newest event of the job's history; `job` has counted it already."""
        event = Event(job.id, job.account_id, job.events, kind, self.now, data or None)
        self._changes.events.append(event)
        if not is_ordinary(event):
            self._changes.history.append(event)

    def step(self, job_id: str, name: str) -> str | None:
        return self._steps[job_id, name]

    def put_step(self, step: Step) -> None:
        self._steps[step.job_id, step.name] = step.result
        self._changes.steps.append(step)

    # Everything else

    def key(self, name: KeyName) -> Key | None:
        return self._keys[name]

    def put_key(self, key: Key) -> None:
        name: KeyName = (key.account_id, key.scope, key.key)
        self._keys[name] = key
        self._changed_keys[name] = None

    def forget_key(self, name: KeyName) -> None:
        self._keys[name] = None
        self._changed_keys[name] = None

    def reservation(self, reservation_id: str) -> Reservation | None:
        return self._reservations[reservation_id]

    def reservations_of(self, account_id: str) -> int:
        """How many slots the account has reserved now; expired ones do not count, swept or not."""
        found = self._reservations_of[account_id]
        return sum(1 for r in found.values() if r.state == "active" and r.expires_at > self.now) if found else 0

    def put_reservation(self, reservation: Reservation) -> None:
        """Sets the reservation's new value and updates its account's count of active ones."""
        before = self._reservations.get(reservation.id)
        change = (reservation.state == "active") - (before is not None and before.state == "active")
        if change:
            account = self._known(self._accounts[reservation.account_id])
            self.put_account(replace(account, reserved=account.reserved + change))
        self._reservations[reservation.id] = reservation
        self._changed_reservations[reservation.id] = None
        if reservation.account_id in self._reservations_of:
            self._reservations_of[reservation.account_id][reservation.id] = reservation

    def forget_reservation(self, reservation_id: str) -> None:
        """Deletes a reservation that has ended, and so counts nowhere."""
        self._reservations[reservation_id] = None
        self._changed_reservations[reservation_id] = None

    def batch(self, batch_id: str) -> Batch | None:
        return self._batches[batch_id]

    def add_batch(self, batch: Batch) -> None:
        if batch.id in self._batches:
            self._batches[batch.id] = batch
        self._changes.batches.append(batch)

    def forget_batch(self, batch_id: str) -> None:
        """Deletes a batch that has no jobs."""
        self._batches[batch_id] = None
        self._changes.forgotten_batches.append(batch_id)

    def pool(self, name: str) -> Pool | None:
        return self._pools[name]

    def put_pool(self, pool: Pool) -> None:
        self._pools[pool.name] = pool
        self._changed_pools[pool.name] = None

    def occupied(self, pool: str) -> int:
        return self._occupied[pool]

    def content(self, spec: JobSpec) -> Content | None:
        """Returns the content of a job with a content hash: which job computes it, or has; None if none."""
        assert spec.content_hash is not None
        return self._contents[spec.tool, spec.content_hash]

    def put_content(self, content: Content) -> None:
        name = content.tool, content.content_hash
        self._set_content(name, content, was_there=self._contents.get(name) is not None)

    def forget_content(self, job: Job) -> None:
        """Deletes the job's content if it is this job's own, so that its result answers no further jobs."""
        if (content := self.content(job.spec)) is not None and content.job_id == job.id:
            self._set_content((content.tool, content.content_hash), None, was_there=True)

    def _set_content(self, name: ContentName, content: Content | None, *, was_there: bool) -> None:
        self._contents_before.setdefault(name, was_there)
        self._contents[name] = content

    def find(self, kind: type[R], key: str) -> R | None:
        """A record of a rare kind."""
        found = self._keyed[kind.__name__, key]
        assert found is None or isinstance(found, kind)
        return found

    def put(self, record: AnyKeyed) -> None:
        name = record.name_in_state
        if name not in self._keyed:
            raise NotLoaded(f"{name} was not loaded: `needs` must name it")
        self._keyed[name] = record
        self._changed_keyed[name] = None

    def remove(self, record: AnyKeyed) -> None:
        name = record.name_in_state
        self._keyed[name] = None
        self._changed_keyed[name] = None

    def put_worker(self, worker: Worker) -> None:
        self._workers[worker.name] = worker

    def api_key(self, key_id: str) -> ApiKey | None:
        return self._api_keys[key_id]

    def api_keys_of(self, name: str) -> list[ApiKey]:
        """All keys of this name that were not revoked."""
        return [key for key in self._api_keys_of[name].values() if key.revoked_at is None]

    def put_api_key(self, key: ApiKey) -> None:
        assert key.id in self._api_keys, f"API key {key.id} was not loaded"
        self._api_keys[key.id] = key
        self._changed_api_keys[key.id] = None
        if key.name in self._api_keys_of:
            self._api_keys_of[key.name][key.id] = key

    def put_api_key_use(self, use: ApiKeyUse) -> None:
        self._api_key_uses[use.key_id] = use

    def has_hooks(self, job_id: str) -> bool:
        """Whether a hook is still to be run for the job."""
        return bool(self._hooks_of[job_id])

    def hook(self, name: str, job_id: str) -> PendingHook | None:
        """A hook that is still to be run for the job."""
        return self._hooks_of[job_id].get(name)

    def put_hook(self, hook: PendingHook) -> None:
        self._changed_hooks[hook.name, hook.job_id] = hook
        if hook.job_id in self._hooks_of:
            self._hooks_of[hook.job_id][hook.name] = hook

    def end_hook(self, hook: PendingHook) -> None:
        """Deletes a pending hook, so that it is not run again."""
        self._changed_hooks[hook.name, hook.job_id] = None
        del self._hooks_of[hook.job_id][hook.name]

    def add_audit_line(self, line: AuditLine) -> None:
        self._changes.audit.append(line)


def _by_id(found: dict[str, list[ApiKey]]) -> Loaded[str, dict[str, ApiKey]]:
    return Loaded({name: {key.id: key for key in keys} for name, keys in found.items()})
