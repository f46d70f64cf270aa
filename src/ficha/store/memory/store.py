"""The memory store: one `State`, changed in one step per transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Any, TypeVar

from msgspec.structs import replace

from ...core.dataset import State
from ...core.history import without_quotes
from ...core.invariants import rows_of
from ...core.needs import PROMOTIONS_PER_SLOT, Needs
from ...core.policy import MILLISECOND
from ...core.records import WAITING, Awaiting, Entry, EntryKind, Event, Figures, Job, Leased, Parked, Ready
from ...core.snapshot import Changes, JobChange, Snapshot
from ...core.split_requests import active_parts, has_parts
from ...core.suspects import is_suspect
from ...core.worker_counts import added
from .. import base
from ..base import Clock, Commit, Committed, Decide, Hints, Query, StoreError, no_hints, wall_clock
from ..commits import EVENTS_PER_COMMIT
from . import reads

T = TypeVar("T")


class CommitRow(Commit, frozen=True):
    """A commit as it is kept."""

    at: int
    figures: Figures | None


class MemoryStore:
    """Holds `state`, and three lists of job ids that take the place of a database's indexes.

    The events of `state` are a log of everything; queries are answered from jobs, `history` and `commit_rows`.
    """

    committers = 1

    def __init__(self, *, clock: Clock = wall_clock) -> None:
        self.state = State()
        self.clock = clock
        self.ready: defaultdict[str, set[str]] = defaultdict(set)
        self.parked: defaultdict[str, set[str]] = defaultdict(set)
        self.held: defaultdict[str, set[str]] = defaultdict(set)
        self._entries_of_jobs: set[tuple[str, EntryKind]] = set()
        self.history: defaultdict[str, list[Event]] = defaultdict(list)
        self.commit_rows: list[CommitRow] = []
        self._last_commit = 0
        self._markers: dict[str, int] = {}

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to close."""

    async def transact(
        self, committer: str, number: int, needs: Needs, decide: Decide, hints: Hints = no_hints
    ) -> Committed:
        changes, outcomes = decide(self.snapshot(needs))
        self._apply(changes)
        self._markers[committer] = number
        return Committed(changes, outcomes)

    async def committed(self, committer: str, number: int) -> bool:
        return self._markers.get(committer, 0) >= number

    async def transact_within(self, connection: Any, needs: Needs, decide: Decide, hints: Hints) -> Committed:
        raise StoreError(base.NOT_SHARED)

    async def read(self, query: Query[T]) -> T:
        return reads.answer(self, query)

    async def tidy(self, commits_kept_ms: int) -> bool:
        before_at = self.clock() - commits_kept_ms * MILLISECOND
        gone = 0
        for commit in self.commit_rows[:-1][: base.COMMITS_PRUNED]:
            if commit.at >= before_at:
                break
            gone += 1
        del self.commit_rows[:gone]
        return gone == base.COMMITS_PRUNED

    async def scrub(self) -> bool:
        return True

    async def notify(self, names: Iterable[str]) -> None:
        """There is no other process."""

    async def listen(self, heard: Callable[[str], None]) -> None:
        """There is no other process."""

    def snapshot(self, needs: Needs) -> Snapshot:
        state = self.state
        owners = {job.account_id for job_id in needs.owned_jobs if (job := state.jobs.get(job_id)) is not None}
        holders = {r.account_id for key in needs.reservations if (r := state.reservations.get(key)) is not None}
        accounts = needs.accounts | owners | holders
        keys = {name: state.keys.get(name) for name in needs.keys}
        parked = self._parked_jobs(needs, accounts)
        ready = {pool: self._claimable(pool, limit, needs) for pool, limit in needs.ready.items()}
        named = {key.job_id for key in keys.values() if key is not None and key.job_id is not None}
        listed = {job_id for jobs in (*parked.values(), *ready.values()) for job_id in jobs}
        claimable = listed if needs.ready else set()
        snapshot = Snapshot(
            now=self.clock(),
            accounts={key: state.accounts.get(key) for key in accounts},
            jobs={key: state.jobs.get(key) for key in needs.jobs | needs.owned_jobs | named | listed},
            payloads={key: state.payloads[key] for key in needs.payloads | claimable if key in state.payloads},
            steps={key: (step.result if (step := state.steps.get(key)) else None) for key in needs.steps},
            keys=keys,
            reservations={key: state.reservations.get(key) for key in needs.reservations},
            reservations_of={
                account: [r for r in state.reservations.values() if r.account_id == account and r.state == "active"]
                for account in needs.reservations_of
            },
            parked=parked,
            pools={key: state.pools.get(key) for key in needs.pools},
            occupied={pool: len(self.held[pool]) for pool in needs.ready},
            ready=ready,
            contents={key: state.contents.get(key) for key in needs.contents},
            keyed={name: state.keyed.get(name) for name in needs.keyed | needs.looked},
            batches={key: state.batches.get(key) for key in needs.batches},
            api_keys={key: state.api_keys.get(key) for key in needs.api_keys},
            api_keys_of={
                name: [key for key in state.api_keys.values() if key.name == name and key.revoked_at is None]
                for name in needs.api_keys_of
            },
            hooks_of={
                job_id: [hook for hook in state.hooks.values() if hook.job_id == job_id] for job_id in needs.hooks_of
            },
            rows_of={account: rows_of(state, account) for account in needs.rows_of},
            parts_of={
                key: active_parts(state.jobs.values(), key) if has_parts(state.accounts.get(key)) else {}
                for key in needs.parts_of
            },
        )
        snapshot.contents.update({name: state.contents.get(name) for name in snapshot.add_contents()})
        return snapshot

    def _parked_jobs(self, needs: Needs, accounts: set[str]) -> dict[str, list[str]]:
        limits = dict.fromkeys(accounts, 0)
        for job_id in needs.owned_jobs:
            job = self.state.jobs.get(job_id)
            if job is not None:
                limits[job.account_id] += PROMOTIONS_PER_SLOT
        limits.update({account: len(self.parked[account]) for account in needs.parked_of})
        return {account: self._in_claim_order(self.parked[account], limit) for account, limit in limits.items()}

    def _in_claim_order(self, job_ids: set[str], limit: int) -> list[str]:
        return nsmallest(limit, job_ids, key=self.claim_order)

    def _claimable(self, pool: str, limit: int, needs: Needs) -> list[str]:
        jobs = self.ready[pool]
        if pool not in needs.suspects:
            jobs = {key for key in jobs if not is_suspect(self.state.jobs[key])}
        return self._in_claim_order(jobs, limit)

    def claim_order(self, job_id: str) -> tuple[int, str]:
        place = self.state.jobs[job_id].place
        assert isinstance(place, WAITING)
        return place.rank, job_id

    def _apply(self, changes: Changes) -> None:
        self._list_entries(changes.entries)
        state = self.state
        state.accounts.update({account.id: account for account in changes.accounts})
        for change in changes.jobs:
            self._list(change)
            state.jobs[change.after.id] = change.after
        state.payloads.update(changes.payloads)
        state.results.update(changes.results)
        for step in changes.steps:
            state.steps.setdefault((step.job_id, step.name), step)
        for job_id in changes.forgotten_steps:
            state.steps = {name: step for name, step in state.steps.items() if name[0] != job_id}
            self.history[job_id] = [*map(without_quotes, self.history[job_id])]
        state.keys.update({(key.account_id, key.scope, key.key): key for key in changes.keys})
        for name in changes.forgotten_keys:
            state.keys.pop(name, None)
        state.reservations.update({held.id: held for held in changes.reservations})
        for reservation_id in changes.forgotten_reservations:
            state.reservations.pop(reservation_id, None)
        for batch in changes.batches:
            state.batches.setdefault(batch.id, batch)
        for batch_id in changes.forgotten_batches:
            state.batches.pop(batch_id, None)
        if changes.emptied_entries:
            emptied = {*changes.emptied_entries}
            state.entries = [
                replace(entry, reason=None) if (entry.account_id, entry.number) in emptied else entry
                for entry in state.entries
            ]
        for _, number in changes.emptied_audit:
            state.audit[number - 1] = replace(state.audit[number - 1], words=None)
        state.pools.update({pool.name: pool for pool in changes.pools})
        for content in (*changes.contents, *changes.begun_contents):
            state.contents[content.tool, content.content_hash] = content
        for content_name in changes.forgotten_contents:
            state.contents.pop(content_name, None)
        state.keyed.update({record.name_in_state: record for record in changes.keyed})
        for removed in changes.removed_keyed:
            state.keyed.pop(removed, None)
        state.workers.update({worker.name: worker for worker in changes.workers})
        for tally in changes.tallies:
            state.tallies[tally.worker, tally.kind] = added(state.tallies.get((tally.worker, tally.kind)), tally)
        state.entries += changes.entries
        state.events += changes.events
        for event in changes.history:
            self.history[event.job_id].append(event)
        for first in range(0, len(changes.events) or changes.figures is not None, EVENTS_PER_COMMIT):
            self._last_commit += 1
            part, figures = changes.events[first : first + EVENTS_PER_COMMIT], None if first else changes.figures
            self.commit_rows.append(CommitRow(self._last_commit, part, self.clock(), figures))
        state.api_keys.update({key.id: key for key in changes.api_keys})
        state.api_key_uses.update({use.key_id: use for use in changes.api_key_uses})
        state.audit += changes.audit
        state.hooks.update({(hook.name, hook.job_id): hook for hook in changes.hooks})
        for ended in changes.ended_hooks:
            state.hooks.pop(ended, None)
        if changes.forgotten_jobs:
            self._forget(state, {*changes.forgotten_jobs})

    def _forget(self, state: State, gone: set[str]) -> None:
        """Deletes jobs that have ended, with everything that belongs to them alone."""
        for job_id in gone:
            state.jobs.pop(job_id, None)
            state.payloads.pop(job_id, None)
            state.results.pop(job_id, None)
            self.history.pop(job_id, None)
        state.steps = {name: step for name, step in state.steps.items() if name[0] not in gone}
        state.events = [event for event in state.events if event.job_id not in gone]

    def _list_entries(self, entries: list[Entry]) -> None:
        """Refuses a job's second charge or refund before anything is written, as a database does by a unique index."""
        listed: set[tuple[str, EntryKind]] = set()
        for entry in entries:
            if entry.job_id is not None:
                line = (entry.job_id, entry.kind)
                if line in self._entries_of_jobs or line in listed:
                    raise StoreError(f"job {entry.job_id} already has an entry of kind {entry.kind}; nothing was kept")
                listed.add(line)
        self._entries_of_jobs |= listed

    def _list(self, change: JobChange) -> None:
        if change.before is not None and (old := self._list_of(change.before)) is not None:
            old.discard(change.before.id)
        if (new := self._list_of(change.after)) is not None:
            new.add(change.after.id)

    def _list_of(self, job: Job) -> set[str] | None:
        match job.place:
            case Ready():
                return self.ready[job.spec.pool]
            case Parked(due_at=None):
                return self.parked[job.account_id]
            case Leased() | Awaiting():
                return self.held[job.spec.pool]
            case _:
                return None
