"""Drives a store as the engine does, and checks what it holds.

Every commit is also applied to `expected`, a state in memory. `check` compares the store with it through every query
that reads a record, so a test only has to run commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from ..core import commands as c
from ..core.dataset import State
from ..core.decide import decide
from ..core.invariants import uncounted_runs, violations
from ..core.needs import Needs, needs
from ..core.outcomes import Outcome
from ..core.policy import Plan, Policy
from ..core.records import AuditLine
from ..core.snapshot import Changes, Snapshot
from ..core.worker_counts import added
from ..store.base import (
    Decide,
    Decision,
    GetApiKey,
    GetJobs,
    GetState,
    JobRow,
    ListAudit,
    ListSteps,
    Query,
    Store,
    Transient,
)
from .clock import ManualClock
from .comparing import comparable

T = TypeVar("T")

POLICY = Policy(
    plans={
        plan.name: plan
        for plan in (
            Plan("pro", priority=10),
            Plan("free", priority=50, max_running=1),
            Plan("pair", priority=30, max_running=2),
            Plan("single", priority=40, max_active=1),
            Plan("ageing", priority=20, ageing_s=10),
            Plan("first", priority=-2048),
            Plan("last", priority=2047),
        )
    }
)


class Driver:
    """A store, its clock, and the state that the store must hold."""

    def __init__(self, store: Store, clock: ManualClock, policy: Policy = POLICY) -> None:
        self.store = store
        self.clock = clock
        self.policy = policy
        self.expected = State()
        self._ids = 0
        self._number = 0
        self._by_hand = False
        self.committer = self.new_id()

    def new_id(self) -> str:
        """A UUIDv7 greater than those before it, the same in every run."""
        self._ids += 1
        return f"{self._ids:08x}-0000-7000-8000-{self._ids:012x}"

    # Commit groups

    async def run(self, *commands: c.Command) -> list[Outcome]:
        """Runs the commands as one commit group, and returns their outcomes."""
        return await self._transact(needs(commands), lambda snapshot: decide(snapshot, commands, self.policy))

    async def one(self, command: c.Command, kind: type[T]) -> T:
        """Runs one command, whose outcome must be of this kind."""
        (outcome,) = await self.run(command)
        assert isinstance(outcome, kind), f"{command} led to {outcome}"
        return outcome

    async def write(self, changes: Changes) -> None:
        """Writes rows that no command made; from now on `check` skips the invariants."""
        self._by_hand = True
        wanted = Needs(
            accounts={account.id for account in changes.accounts},
            keys={(key.account_id, key.scope, key.key) for key in changes.keys},
            reservations={held.id for held in changes.reservations},
            pools={pool.name for pool in changes.pools},
            keyed={record.name_in_state for record in changes.keyed} | {*changes.removed_keyed},
            api_keys={key.id for key in changes.api_keys},
        )
        await self._transact(wanted, lambda snapshot: (changes, []))

    async def load(self, wanted: Needs) -> Snapshot:
        """The snapshot that a commit group with these needs gets; changes nothing."""
        seen: list[Snapshot] = []

        def look(snapshot: Snapshot) -> Decision:
            seen.append(snapshot)
            return Changes(), []

        await self._transact(wanted, look)
        return seen[-1]

    async def _transact(self, wanted: Needs, rules: Decide) -> list[Outcome]:
        self._number += 1
        committed = await self.store.transact(self.committer, self._number, wanted, rules)
        apply(self.expected, committed.changes)
        return committed.outcomes

    async def race(self, *groups: Sequence[c.Command]) -> list[list[Outcome]]:
        """Runs several groups, each as a separate committer, as many at once as the store allows."""
        free = asyncio.Semaphore(self.store.committers)
        outcomes = await asyncio.gather(*(self._race_one(free, self.new_id(), group) for group in groups))
        # Only the store knows in which order they were committed.
        self.expected = await self.read(GetState(texts=True))
        self.expected.audit = await self.audit()
        return outcomes

    async def _race_one(self, free: asyncio.Semaphore, committer: str, group: Sequence[c.Command]) -> list[Outcome]:
        def rules(snapshot: Snapshot) -> Decision:
            return decide(snapshot, group, self.policy)

        async with free:
            for attempt in range(1, 100):
                try:
                    return (await self.store.transact(committer, attempt, needs(group), rules)).outcomes
                except Transient:
                    continue
        raise AssertionError(f"no end of conflicts for {group}")

    # Queries

    async def read(self, query: Query[T]) -> T:
        return await self.store.read(query)

    async def rows(self) -> dict[str, JobRow]:
        """All expected jobs, by id, read from the store."""
        return {row.job.id: row for row in await self.read(GetJobs(tuple(self.expected.jobs)))}

    async def audit(self) -> list[AuditLine]:
        """The whole audit log, oldest first."""
        found = await self.read(ListAudit(limit=1_000_000))
        return [numbered.line for numbered in reversed(found)]

    async def check(self) -> None:
        """Checks that every query returns what the store must hold, and that no invariant is broken."""
        expected = self.expected
        state = await self.read(GetState(texts=True))
        assert self._by_hand or [*violations(state), *uncounted_runs(state)] == []
        found, wanted = comparable(state), comparable(expected)
        # `GetState` has no audit lines. The use of a key may be recorded even if the key does not exist.
        found["audit"] = comparable(await self.audit())
        wanted["api_key_uses"] = {key: use for key, use in wanted["api_key_uses"].items() if key in expected.api_keys}
        for part in wanted:
            assert found[part] == wanted[part], part
        assert comparable(await self.rows()) == comparable(
            {key: JobRow(job, expected.payloads[key], expected.results.get(key)) for key, job in expected.jobs.items()}
        )
        await self._check_loads()
        for key in list(expected.api_keys.values())[:100]:
            use = expected.api_key_uses.get(key.id)
            [row] = (await self.read(GetApiKey(key.digest))).keys
            assert (row.key, row.last_used_at) == (key, None if use is None else use.at)
            assert (await self.read(GetApiKey(key_id=key.id))).keys == [row]
        for job_id in list(dict.fromkeys(key[0] for key in expected.steps))[:100]:
            steps = [step for step in expected.steps.values() if step.job_id == job_id]
            assert comparable(await self.read(ListSteps(job_id))) == comparable(steps)

    async def _check_loads(self) -> None:
        expected = self.expected
        jobs = set(expected.jobs)
        snapshot = await self.load(
            Needs(
                accounts=set(expected.accounts),
                jobs=jobs,
                steps=set(expected.steps),
                keys=set(expected.keys),
                reservations=set(expected.reservations),
                pools=set(expected.pools),
                contents=set(expected.contents),
                keyed=set(expected.keyed),
                batches=set(expected.batches),
                api_keys=set(expected.api_keys),
                api_keys_of={key.name for key in expected.api_keys.values()},
                hooks_of=jobs,
            )
        )
        # Jobs that may be claimed are loaded with their content, which is None where there is none.
        snapshot.contents = {name: content for name, content in snapshot.contents.items() if content is not None}
        for part in ("accounts", "jobs", "keys", "reservations", "pools", "contents", "keyed", "batches", "api_keys"):
            assert comparable(getattr(snapshot, part)) == comparable(getattr(expected, part)), part
        named = [key for keys in snapshot.api_keys_of.values() for key in keys]
        unrevoked = {key.id: key for key in expected.api_keys.values() if key.revoked_at is None}
        assert comparable({key.id: key for key in named}) == comparable(unrevoked)
        hooks = {(hook.name, hook.job_id): hook for found in snapshot.hooks_of.values() for hook in found}
        assert comparable(hooks) == comparable(expected.hooks)
        steps: dict[tuple[str, str], str | None] = {key: step.result for key, step in expected.steps.items()}
        assert comparable(Snapshot(0, steps=snapshot.steps)) == comparable(Snapshot(0, steps=steps))
        owned = await self.load(Needs(owned_jobs=jobs, payloads=jobs))
        assert comparable({key: owned.jobs[key] for key in jobs}) == comparable(expected.jobs)
        payloads = Snapshot(0, payloads=owned.payloads)
        assert comparable(payloads) == comparable(Snapshot(0, payloads=expected.payloads))


def apply(state: State, changes: Changes) -> None:
    """Applies changes to a state in memory, as any store must."""
    state.accounts.update({account.id: account for account in changes.accounts})
    state.jobs.update({change.after.id: change.after for change in changes.jobs})
    state.payloads.update(changes.payloads)
    state.results.update(changes.results)
    state.steps.update({(step.job_id, step.name): step for step in changes.steps})
    for job_id in changes.forgotten_steps:
        state.steps = {name: step for name, step in state.steps.items() if name[0] != job_id}
    state.keys.update({(key.account_id, key.scope, key.key): key for key in changes.keys})
    for name in changes.forgotten_keys:
        state.keys.pop(name, None)
    state.reservations.update({held.id: held for held in changes.reservations})
    for reservation_id in changes.forgotten_reservations:
        state.reservations.pop(reservation_id, None)
    for batch in changes.batches:
        state.batches.setdefault(batch.id, batch)
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
    emptied = set(changes.emptied_events)
    state.events = [
        replace(event, data=None) if (event.job_id, event.kind) in emptied else event for event in state.events
    ]
    state.api_keys.update({key.id: key for key in changes.api_keys})
    state.api_key_uses.update({use.key_id: use for use in changes.api_key_uses})
    for account_id, _ in changes.emptied_audit:
        # The oldest lines lose their words first. Their numbers are the store's.
        index = next(at for at, line in enumerate(state.audit) if line.account_id == account_id and line.words)
        state.audit[index] = replace(state.audit[index], words=None)
    state.audit += changes.audit
    state.hooks.update({(hook.name, hook.job_id): hook for hook in changes.hooks})
    for hook in changes.ended_hooks:
        state.hooks.pop(hook, None)
    _forget(state, changes)


def _forget(state: State, changes: Changes) -> None:
    """Removes what is forgotten by its age, or with an erased account."""
    gone, emptied = {*changes.forgotten_jobs}, {*changes.emptied_entries}
    for job_id in gone:
        state.jobs.pop(job_id, None)
        state.payloads.pop(job_id, None)
        state.results.pop(job_id, None)
    for batch_id in changes.forgotten_batches:
        state.batches.pop(batch_id, None)
    if gone:
        state.steps = {name: step for name, step in state.steps.items() if name[0] not in gone}
        state.events = [event for event in state.events if event.job_id not in gone]
    if emptied:
        state.entries = [
            replace(entry, reason=None) if (entry.account_id, entry.number) in emptied else entry
            for entry in state.entries
        ]
