"""A small world for the tests of the rules: the memory store, a clock moved by hand, and the two doors of the core."""

from __future__ import annotations

from msgspec.structs import replace

from ficha.core.commands import Command, DeclarePool
from ficha.core.dataset import State
from ficha.core.decide import decide
from ficha.core.invariants import overfull_pools, uncounted_runs, violations
from ficha.core.needs import needs
from ficha.core.outcomes import Outcome
from ficha.core.policy import Plan, Policy
from ficha.core.snapshot import Changes, Snapshot
from ficha.store.base import Decision
from ficha.store.memory import MemoryStore

TUESDAY: int = 1_773_100_800_000_000
"""2026-03-10 00:00 UTC, the day on which every story begins."""


class World:
    """Runs commit groups exactly as the engine does: `needs`, load, `decide`, apply."""

    def __init__(self, policy: Policy | None = None, *, now: int = TUESDAY) -> None:
        self.now = now
        self.policy = policy or Policy(plans={})
        self.store = MemoryStore(clock=lambda: self.now)
        self.snapshot: Snapshot | None = None
        self.changes = Changes()
        self._number = 0

    @property
    def state(self) -> State:
        return self.store.state

    def declare(self, *plans: Plan) -> None:
        """Puts plans into the configuration, as a deployment would."""
        self.policy = replace(self.policy, plans={**self.policy.plans, **{plan.name: plan for plan in plans}})

    def declare_pools(self, **slots: int | None) -> None:
        self.run(*(DeclarePool(name, limit) for name, limit in slots.items()))

    def run(self, *group: Command) -> list[Outcome]:
        """One commit group, one transaction. The snapshot and the changes stay to be looked at."""

        def decided(snapshot: Snapshot) -> Decision:
            self.snapshot = snapshot
            return decide(snapshot, group, self.policy)

        self._number += 1
        transaction = self.store.transact("committer", self._number, needs(group), decided)
        try:
            transaction.send(None)
        except StopIteration as ended:
            self.changes = ended.value.changes
            return ended.value.outcomes
        raise AssertionError("the memory store never waits")

    def one(self, command: Command) -> Outcome:
        (outcome,) = self.run(command)
        return outcome

    def faults(self) -> list[str]:
        """What is wrong with the state. A pool that an operator resized may be overfull for a while."""
        resized = {pool.name for pool in self.state.pools.values() if pool.resized is not None}
        overfull = [text for text in overfull_pools(self.state) if text.split()[1] not in resized]
        return violations(self.state) + uncounted_runs(self.state) + overfull
