"""Replays traffic in virtual time: each arrival, start and end is a command that the real rules decide.

What is left out: leases and heartbeats (workers never die here), webhooks, hooks, events, provider outages and turns,
idempotency keys, reservations, reuse of equal results. A claim takes place the moment that it can, or `pickup_s` later.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from functools import cache
from heapq import heappop, heappush
from typing import Final

from msgspec import Struct, field

from ..core.commands import (
    AcceptedByProvider,
    CancelJob,
    CancelledByHandler,
    ChangePlan,
    Claim,
    Completed,
    Credit,
    Ending,
    Failed,
    Finish,
    NewJob,
    Recover,
    Submit,
    TimedOut,
)
from ..core.outcomes import Claimed, Refusal
from ..core.policy import DAY, MAX_AMOUNT, SECOND, day_of
from ..core.records import HELD, WAITING, Awaiting, Job, JobSpec, Leased, Parked, Place, Ready
from .scenario import PlanMoney, Scenario
from .traffic import Arrival, Traffic, Unusable, fraction
from .virtual_rows import NO_PAYLOAD, VirtualRows

BUCKETS: Final = 168
"""How many parts of equal length the plot divides the time into: a week by the hour."""
MANY: Final = 1_000_000
"""How many jobs a claim may take where workers are never short."""
_END, _DUE, _LEAVE, _CLAIM, _AGE, _GRANT = range(6)
"""The kinds of coming events. To a job: its run ends, `Recover` is due, its owner gives up waiting, its rank improves.
To a pool: its workers claim. To all accounts: a new day begins, with the credits of each day."""


class Flow(Struct):
    """How the jobs of one plan and tool ended. `waits`: how long each started job waited; `waited_from`: from when.
    abandoned: cancelled before they started. unended: not ended, with no coming event that could end them."""

    submitted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    waits: array[int] = field(default_factory=lambda: array("q"))
    waited_from: array[int] = field(default_factory=lambda: array("q"))
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    abandoned: int = 0
    unended: int = 0
    charged: int = 0
    refunded: int = 0


class PoolUse(Struct):
    """How long slots of a pool were held, in each part of the time. limit: its slots, or what its workers can run."""

    limit: int | None
    busy_us: list[int]
    most: int = 0
    held: int = 0


class Simulated(Struct):
    """The result of a scenario. granted: credits that accounts were given. balance: what they have left."""

    scenario: Scenario
    starts_at: int
    ends_at: int
    flows: dict[tuple[str, str], Flow]
    pools: dict[str, PoolUse]
    accounts: int
    granted: int = 0
    balance: int = 0
    drained_at: int = 0

    @property
    def bucket_us(self) -> int:
        return max(1, -(-(self.ends_at - self.starts_at) // BUCKETS))


class _Group(Struct):
    """Workers of the same pools: how many more jobs they can take."""

    name: str
    pools: tuple[str, ...]
    free: int


def replay(scenario: Scenario, traffic: Traffic, progress: Callable[[int], None] | None = None) -> Simulated:
    """Simulates a scenario. `progress` gets the number of arrivals done, about a hundred times in all."""
    return _Replay(scenario, traffic.grown(scenario.arrivals)).run(progress)


class _Replay:
    def __init__(self, scenario: Scenario, traffic: Traffic) -> None:
        self._scenario = scenario
        self._arrivals = traffic.arrivals
        pickup_s = scenario.pickup_s
        self._pickup_us = traffic.pickup_us if pickup_s is None else int(pickup_s * SECOND)
        self._rows = VirtualRows(scenario.policy, scenario.pools.values(), traffic.starts_at)
        self._heap: list[tuple[int, int, int, str, int]] = []
        self._pushed = 0
        self._moving = 0
        """How many coming events may let a job start or end."""
        self._groups = _groups(scenario)
        self._groups_of = {
            pool: [group for group in self._groups.values() if pool in group.pools] for pool in scenario.pools
        }
        self._spec = cache(self._made_spec)
        self._done = Simulated(
            scenario,
            traffic.starts_at,
            traffic.ends_at,
            flows={},
            pools={name: PoolUse(_limit(scenario, name), [0] * BUCKETS) for name in scenario.pools},
            accounts=0,
        )
        self._bucket_us = self._done.bucket_us

    def run(self, progress: Callable[[int], None] | None) -> Simulated:
        self._check()
        self._open_accounts()
        step = max(1, len(self._arrivals) // 100)
        for number, arrival in enumerate(self._arrivals):
            while self._heap and self._heap[0][0] <= arrival.at:
                self._next_event()
            self._submit(number, arrival)
            if progress is not None and number % step == 0:
                progress(number)
        while self._heap and self._moving:
            self._next_event()
        return self._ended()

    def _check(self) -> None:
        known = self._scenario
        for plan, tool in sorted({(arrival.plan, arrival.tool) for arrival in self._arrivals}):
            for noun, name, declared in (("plan", plan, known.policy.plans), ("tool", tool, known.tools)):
                if name not in declared:
                    words = f"the traffic has jobs of the {noun} {name!r}, which is not declared"
                    raise Unusable(f"{words}; declared are: {', '.join(declared)}")
            self._done.flows[plan, tool] = Flow()

    # What happens

    def _open_accounts(self) -> None:
        """Opens every account of the traffic, with what its plan gives."""
        now = self._done.starts_at
        rows, money = self._rows, self._scenario.money
        is_given_daily = False
        for arrival in self._arrivals:
            if arrival.account in rows.plans:
                continue
            given = money.get(arrival.plan, PlanMoney())
            rows.open_account(
                arrival.account, arrival.plan, MAX_AMOUNT if given.credits is None else given.credits, now
            )
            if not arrival.is_first:
                rows.has_submitted_before(arrival.account)
            is_given_daily = is_given_daily or bool(given.credits_each_day)
            self._done.granted += sum(entry.amount for entry in rows.entries)
        if is_given_daily:
            self._push(day_of(now) + DAY, _GRANT, "", 0)

    def _submit(self, number: int, arrival: Arrival) -> None:
        rows, scenario = self._rows, self._scenario
        if rows.plans[arrival.account] != arrival.plan:
            rows.decide(ChangePlan(arrival.account, arrival.plan), arrival.at)
            rows.plans[arrival.account] = arrival.plan
            self._follow(arrival.at)
        tool = scenario.tools[arrival.tool]
        job_id = f"{number:010d}"
        spec = self._spec(arrival.tool, arrival.cost, arrival.units)
        new = NewJob(job_id, spec, NO_PAYLOAD, tool.priority, tool.max_wait_ms)
        outcome = rows.decide(Submit(arrival.account, (new,)), arrival.at)
        flow = self._done.flows[arrival.plan, arrival.tool]
        flow.submitted += 1
        if isinstance(outcome, Refusal):
            flow.refused[outcome.code] += 1
            return
        self._follow(arrival.at)
        job = rows.job(job_id)
        if job is not None and isinstance(job.place, WAITING):
            if job.wait_until_at is not None:
                self._push(job.wait_until_at, _DUE, job_id, 0)
            if arrival.patience_us is not None:
                self._push(arrival.at + arrival.patience_us, _LEAVE, job_id, 0)

    def _made_spec(self, tool: str, cost: int | None, units: int) -> JobSpec:
        return self._scenario.tools[tool].job_spec(self._scenario.price(tool, cost), units)

    def _next_event(self) -> None:
        at, _, kind, job_id, epoch = heappop(self._heap)
        self._moving -= kind < _AGE
        if kind == _GRANT:
            self._grant(at)
            return
        if kind == _CLAIM:
            self._claim_in(job_id, at)
            return
        job = self._rows.job(job_id)
        if job is None:
            return
        if kind == _END:
            if job.epoch != epoch or not isinstance(job.place, HELD):
                return
            self._end(job, at)
        elif kind == _LEAVE:
            if job.started_at is not None:
                return
            self._rows.decide(CancelJob(job_id, reason="waited too long"), at)
        else:
            self._rows.decide(Recover(job_id), at)
        self._follow(at)

    def _grant(self, now: int) -> None:
        """Grants the credits that accounts are given each day."""
        for account, plan in self._rows.plans.items():
            amount = self._scenario.money.get(plan, PlanMoney()).credits_each_day
            if amount:
                self._rows.decide(Credit(account, amount, "grant"), now)
                self._done.granted += sum(entry.amount for entry in self._rows.entries)
        if now + DAY <= self._done.ends_at:
            self._push(now + DAY, _GRANT, "", 0)

    def _end(self, job: Job, now: int) -> None:
        """The run ends as the traffic says, or at the tool's time limit."""
        number = int(job.id)
        arrival = self._arrivals[number]
        if isinstance(job.place, Awaiting):
            if now >= job.place.deadline_at:
                self._rows.decide(Recover(job.id), now)
                return
            finish = Finish(job.id, _ending(arrival, job), jitter=fraction(number, 3), attempt=job.attempts)
        else:
            assert isinstance(job.place, Leased)
            ending = TimedOut() if now >= job.place.deadline_at else _ending(arrival, job)
            finish = Finish(job.id, ending, job.epoch, fraction(number, 3))
        self._rows.decide(finish, now)

    def _push(self, at: int, kind: int, job_id: str, epoch: int) -> None:
        self._pushed += 1
        self._moving += kind < _AGE
        heappush(self._heap, (at, self._pushed, kind, job_id, epoch))

    # What follows from it

    def _follow(self, now: int) -> None:
        """Counts what the last command did, plans what is due because of it, and lets workers claim."""
        for pool in sorted(self._noted(now)):
            if not self._pickup_us:
                self._claim_in(pool, now)
            elif any(map(self._can_claim, self._groups_of[pool])):
                self._push(now + self._pickup_us, _CLAIM, pool, 0)

    def _claim_in(self, pool: str, now: int) -> None:
        for group in self._groups_of[pool]:
            # A provider that takes a job over frees the worker at once, for the next claim.
            while self._can_claim(group) and self._claim(group, now):
                pass

    def _can_claim(self, group: _Group) -> bool:
        return group.free > 0 and any(map(self._rows.may_start, group.pools))

    def _noted(self, now: int) -> set[str]:
        """Counts what the last command did. Returns the pools in which a job may start now that could not before."""
        pools: set[str] = set()
        for change in self._rows.take_changed():
            before, job = change.before, change.after
            old, place = None if before is None else before.place, job.place
            if isinstance(old, HELD) and not isinstance(place, HELD):
                pools.add(job.spec.pool)
                self._released(job.spec.pool, old, now)
            if type(old) is Leased and type(place) is not Leased:
                self._groups[old.worker].free += 1
            if type(place) is Ready:
                pools.add(job.spec.pool)
                if place.ages_at is not None:
                    self._push(place.ages_at, _AGE, job.id, 0)
            elif type(place) is Parked and place.due_at is not None:
                self._push(place.due_at, _DUE, job.id, 0)
            elif place is None:
                self._count_end(job)
        for entry in self._rows.entries:
            assert entry.job_id is not None
            arrival = self._arrivals[int(entry.job_id)]
            flow = self._done.flows[arrival.plan, arrival.tool]
            if entry.kind == "charge":
                flow.charged -= entry.amount
            else:
                assert entry.kind == "refund"
                flow.refunded += entry.amount
        return pools

    def _count_end(self, job: Job) -> None:
        flow = self._done.flows[job.plan, job.spec.tool]
        if job.status == "completed":
            flow.completed += 1
        elif job.status == "failed":
            flow.failed += 1
        elif job.started_at is None:
            flow.abandoned += 1
        else:
            flow.cancelled += 1

    def _claim(self, group: _Group, now: int) -> int:
        """Starts the jobs that the workers can take, and returns how many."""
        claimed = self._rows.decide(Claim(group.name, group.pools, group.free, starts=True), now)
        assert isinstance(claimed, Claimed), claimed
        self._rows.take_changed()
        for lease in claimed.leases:
            self._start(group, lease.job, lease.epoch, lease.deadline_at, now)
        return len(claimed.leases)

    def _start(self, group: _Group, job: Job, epoch: int, deadline_at: int, now: int) -> None:
        group.free -= 1
        use = self._done.pools[job.spec.pool]
        use.held += 1
        use.most = max(use.most, use.held)
        if epoch == 1:
            flow = self._done.flows[job.plan, job.spec.tool]
            flow.waits.append(now - job.created_at)
            flow.waited_from.append(job.created_at)
        arrival = self._arrivals[int(job.id)]
        run_us = self._scenario.run_us(arrival.tool, arrival.run_us)
        self._push(min(now + run_us, deadline_at), _END, job.id, epoch)
        if job.spec.tool in self._scenario.policy.provider_tools:
            # The provider has the work: the slot stays taken, the worker is free again.
            self._rows.decide(Finish(job.id, AcceptedByProvider(job.id), epoch), now)
            self._noted(now)

    def _released(self, pool: str, place: Place, now: int) -> None:
        """Adds the time for which a slot was held, to each part of the time that it falls into."""
        use = self._done.pools[pool]
        use.held -= 1
        since = place.leased_at if isinstance(place, Leased) else place.since_at if isinstance(place, Awaiting) else now
        self._add_busy(use, since, now)

    def _add_busy(self, use: PoolUse, since: int, until: int) -> None:
        start, width = self._done.starts_at, self._bucket_us
        until = min(until, self._done.ends_at)
        while since < until:
            bucket = (since - start) // width
            stop = min(until, start + (bucket + 1) * width)
            use.busy_us[bucket] += stop - since
            since = stop

    def _ended(self) -> Simulated:
        done = self._done
        for job in self._rows.unended():
            flow = done.flows[job.plan, job.spec.tool]
            flow.unended += 1
        done.accounts = len(self._rows.plans)
        done.balance = sum(account.balance for account in self._rows.accounts())
        done.drained_at = max(done.ends_at, self._rows.now)
        spent = sum(flow.charged - flow.refunded for flow in done.flows.values())
        assert done.balance == done.granted - spent, "the balances are not what was given less what was spent"
        return done


def _ending(arrival: Arrival, job: Job) -> Ending:
    if arrival.end == "failed" or job.attempts < arrival.failures:
        return Failed("the run failed")
    if arrival.end == "fatal":
        return Failed("the run failed", final=True)
    if arrival.end == "cancelled":
        return CancelledByHandler("cancelled")
    return Completed(NO_PAYLOAD, arrival.delivered, arrival.units)


def _groups(scenario: Scenario) -> dict[str, _Group]:
    if not scenario.workers:
        return {pool: _Group(pool, (pool,), MANY) for pool in scenario.pools}
    return {
        f"workers {number}": _Group(f"workers {number}", group.pools, group.concurrency * group.processes)
        for number, group in enumerate(scenario.workers, 1)
    }


def _limit(scenario: Scenario, pool: str) -> int | None:
    """How many jobs of a pool can be held at once: its slots, or what its workers can run if that is less. (A provider
    has jobs without a worker.)"""
    slots = scenario.pools[pool].limit
    serving = [group.concurrency * group.processes for group in scenario.workers if pool in group.pools]
    held_by_workers = all(
        tool.name not in scenario.policy.provider_tools for tool in scenario.tools.values() if tool.pool == pool
    )
    if not scenario.workers or not held_by_workers:
        return slots
    return sum(serving) if slots is None else min(slots, sum(serving))
