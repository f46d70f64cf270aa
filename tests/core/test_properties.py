"""What is true of every workload, whatever is asked for in it, in whatever order, by whatever clock."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core.api_keys import state_of
from ficha.core.audit import SYSTEM
from ficha.core.dataset import State
from ficha.core.decide import decide
from ficha.core.invariants import overfull_pools, uncounted_runs, violations
from ficha.core.loaded import NotLoaded
from ficha.core.needs import needs
from ficha.core.outcomes import Claimed, Finished, Outcome, PollHeld, Refusal
from ficha.core.policy import HOUR, Plan
from ficha.core.records import Awaiting, Job, Leased, Ready
from ficha.core.snapshot import Changes, Snapshot
from ficha.core.states import BIRTHS, FINAL, HOLDS_SLOT, is_legal
from tests.core.rows import Rows
from tests.core.strategies import POLICY, START_AT, Workload, workloads
from tests.core.world import World


def new_world() -> World:
    return World(POLICY, now=START_AT)


def one_by_one(workload: Workload) -> Iterator[tuple[World, State, c.Command, Outcome]]:
    """Each command in a commit group of its own, with the state as it was before it."""
    world = new_world()
    for step, group in workload:
        world.now += step
        for command in group:
            before = copied(world.state)
            yield world, before, command, world.one(command)


def copied(state: State) -> State:
    """Records are never changed, so copying the tables is enough."""
    return State(**{name: getattr(state, name).copy() for name in state.__struct_fields__})


# What holds in every state


@given(workloads(prunes=True))
@pytest.mark.req("D1", "A6", "A7")
def test_all_invariants_hold_after_every_commit_group(workload: Workload) -> None:
    world = new_world()
    for step, group in workload:
        world.now += step
        world.run(*group)
        assert violations(world.state) == []


@given(workloads(resizes=False))
@pytest.mark.req("A1")
def test_no_pool_is_ever_fuller_than_its_slots(workload: Workload) -> None:
    world = new_world()
    for step, group in workload:
        world.now += step
        world.run(*group)
        assert overfull_pools(world.state) == []


@given(workloads())
@pytest.mark.req("A1")
def test_a_pool_that_was_made_smaller_never_gets_fuller(workload: Workload) -> None:
    for world, before, _, _ in one_by_one(workload):
        busy, was_busy = occupied(world.state), occupied(before)
        for pool in world.state.pools.values():
            assert pool.limit is None or busy[pool.name] <= max(pool.limit, was_busy[pool.name])


@given(workloads(prunes=True))
@pytest.mark.req("D1", "A6")
def test_a_balance_is_the_sum_of_its_entries_and_a_refund_happens_once_and_within_the_charge(
    workload: Workload,
) -> None:
    world = new_world()
    for step, group in workload:
        world.now += step
        world.run(*group)
    sums: Counter[str] = Counter()
    by_job: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for entry in world.state.entries:
        sums[entry.account_id] += entry.amount
        assert sums[entry.account_id] == entry.balance_after >= 0
        if entry.job_id is not None:
            assert entry.kind not in by_job[entry.job_id]
            by_job[entry.job_id][entry.kind] = entry.amount
    assert {account.id: account.balance for account in world.state.accounts.values()} == {
        account: sums[account] for account in world.state.accounts
    }
    for lines in by_job.values():
        assert 0 < lines.get("refund", 0) <= -lines["charge"] or "refund" not in lines


@given(workloads())
@pytest.mark.req("B8")
def test_each_run_is_counted_once_for_its_worker_by_how_it_ended(workload: Workload) -> None:
    """What the tallies say follows from the histories alone."""
    world = new_world()
    for step, group in workload:
        world.now += step
        world.run(*group)
        assert uncounted_runs(world.state) == []
    counts: Counter[tuple[str, str]] = Counter()
    busy_us: Counter[tuple[str, str]] = Counter()
    running: dict[str, tuple[str, int]] = {}
    for event in world.state.events:
        if event.kind == "claimed":
            assert event.data is not None
            running[event.job_id] = event.data["worker"], event.at
            counts[event.data["worker"], "claimed"] += 1
        elif event.kind in ENDS and event.job_id in running:
            worker, began_at = running.pop(event.job_id)
            counts[worker, event.kind] += 1
            busy_us[worker, event.kind] += max(0, event.at - began_at) if event.kind != "recovered" else 0
    assert {name: tally.runs for name, tally in world.state.tallies.items()} == counts
    assert {name: tally.busy_us for name, tally in world.state.tallies.items() if tally.busy_us} == +busy_us


ENDS = {"completed", "failed", "cancelled", "retried", "recovered", "returned", "accepted"}


@given(workloads())
def test_no_more_than_two_keys_of_a_name_live_when_another_is_made(workload: Workload) -> None:
    for world, _, command, outcome in one_by_one(workload):
        command = c.unwrapped(command)
        if isinstance(command, c.CreateApiKey) and not isinstance(outcome, Refusal):
            named = [key for key in world.state.api_keys.values() if key.name == command.name]
            assert sum(state_of(key, world.now) == "live" for key in named) <= 2


# What holds between one state and the next


@given(workloads())
def test_a_line_is_written_for_what_was_done_in_a_name_and_never_changed(workload: Workload) -> None:
    for world, before, command, outcome in one_by_one(workload):
        assert world.state.audit[: len(before.audit)] == before.audit
        new = world.state.audit[len(before.audit) :]
        if isinstance(c.unwrapped(command), c.EndTurn | c.EndDelivery | c.FireSchedule | c.NoteConfiguration):
            assert {line.actor for line in new} <= {SYSTEM}
        elif isinstance(c.unwrapped(command), c.ForgetHook):
            # By age it is Ficha's own act.
            assert {line.act for line in new} <= {"forget_hook"}
        elif isinstance(c.unwrapped(command), c.AdvanceBulkAct):
            # In the name of whoever asked for the bulk act, whoever works on it.
            assert {(line.actor, line.at) for line in new} <= {("boss", world.now)}
        elif not isinstance(command, c.ActingAs) or isinstance(outcome, Refusal):
            assert new == []
        elif isinstance(command.command, ACTS_OF_PEOPLE):
            assert [(line.actor, line.at) for line in new] == [(command.actor, world.now)]
        else:
            assert new == []


ACTS_OF_PEOPLE = (
    *(c.OpenAccount, c.ChangePlan, c.Credit, c.Submit, c.Finish, c.CancelJob, c.Recover, c.Requeue),
    *(c.RecountAccount, c.Resubmit, c.Discard, c.RefundJob, c.BeginBulkAct, c.StopBulkAct),
    *(
        c.Reserve,
        c.EndReservation,
        c.DeclarePool,
        c.PausePool,
        c.ResizePool,
        c.PauseTool,
        c.CloseSubmits,
        c.CreateApiKey,
        c.RevokeApiKey,
    ),
    *(c.OpenBreaker, c.CloseBreaker, c.RemoveFile, c.RemoveWork, c.NoteVerification, c.CloseAccount),
    *(c.AddEndpoint, c.ChangeEndpoint, c.RotateSecret, c.PingEndpoint, c.ResendDelivery),
    *(c.PauseSchedule, c.RunSchedule),
)


@given(workloads())
@pytest.mark.req("A7")
def test_no_job_moves_outside_the_table(workload: Workload) -> None:
    for world, before, _, _ in one_by_one(workload):
        for job in world.state.jobs.values():
            was = before.jobs.get(job.id)
            if was is None:
                assert job.status in BIRTHS
            elif was.status != job.status:
                # A claim may start the job at once, and a finish implies the start: two moves, each a legal one.
                ways = (is_legal(was.status, via) and is_legal(via, job.status) for via in HOLDS_SLOT)
                assert is_legal(was.status, job.status) or any(ways), f"{was.status} to {job.status}"


@given(workloads())
@pytest.mark.req("A5", "A7", "B5")
def test_an_epoch_only_rises_and_what_has_ended_never_changes(workload: Workload) -> None:
    for world, before, command, _ in one_by_one(workload):
        for was in before.jobs.values():
            job = world.state.jobs[was.id]
            assert job.epoch == was.epoch + (was.status == "queued" and job.status in HOLDS_SLOT), f"{command}"
            if was.status in FINAL:
                assert job.events >= was.events
                assert job.late_finishes >= was.late_finishes
                assert job.callbacks >= was.callbacks
                # A run that ended too late may still tell what its provider took, if that is not known.
                assert was.provider_cost in (None, job.provider_cost)
                counts = {"dead_at": None, "events": 0, "late_finishes": 0, "callbacks": 0, "provider_cost": None}
                if isinstance(c.unwrapped(command), c.RefundJob) and was.refunded == 0:
                    assert 0 <= job.refunded <= was.charged
                    counts["refunded"] = 0
                if job.removed_at == was.removed_at:
                    assert world.state.results.get(was.id) == before.results.get(was.id)
                else:
                    assert was.removed_at is None
                    counts |= {"removed_at": None, "checkpoint": None}
                assert replace(job, **counts) == replace(was, **counts)
        assert world.state.entries[: len(before.entries)] == before.entries
        assert world.state.events[: len(before.events)] == before.events
        for job_id, payload in before.payloads.items():
            is_removed = world.state.jobs[job_id].removed_at is not None
            assert world.state.payloads[job_id] == ("null" if is_removed else payload)


@given(workloads())
@pytest.mark.req("B4")
def test_no_lease_is_ever_shortened(workload: Workload) -> None:
    for world, before, _, _ in one_by_one(workload):
        for was in before.jobs.values():
            job = world.state.jobs[was.id]
            if isinstance(was.place, Leased) and isinstance(job.place, Leased) and was.epoch == job.epoch:
                assert job.place.expires_at >= was.place.expires_at
                assert job.place.heartbeat_at >= was.place.heartbeat_at
                assert job.place.deadline_at == was.place.deadline_at


@given(workloads())
@pytest.mark.req("A2", "B3", "D4")
def test_each_claim_takes_the_best_ready_jobs_of_its_pools_that_have_a_slot(workload: Workload) -> None:
    for world, before, command, outcome in one_by_one(workload):
        command = c.unwrapped(command)
        if isinstance(command, c.Claim) and isinstance(outcome, Claimed):
            assert [lease.job.id for lease in outcome.leases] == best_jobs(before, command)
            for lease in outcome.leases:
                job = world.state.jobs[lease.job.id]
                assert (lease.job, lease.payload) == (job, world.state.payloads[job.id])
                assert (lease.worker, lease.epoch) == (command.worker, job.epoch)


def best_jobs(state: State, command: c.Claim) -> list[str]:
    """What a claim has to take, found the slow and simple way."""
    busy = occupied(state)
    ready = sorted(
        (job.place.rank, job.id, job.spec.pool)
        for job in state.jobs.values()
        if isinstance(job.place, Ready) and job.spec.pool in command.pools
    )
    taken: list[str] = []
    contents = set(state.contents)
    looked = 0
    for _, job_id, name in ready:
        pool, spec = state.pools[name], state.jobs[job_id].spec
        if looked < command.limit and not pool.paused and (pool.limit is None or busy[name] < pool.limit):
            looked += 1
            if spec.tool in pool.paused_tools:
                continue
            if spec.content_hash is None or (spec.tool, spec.content_hash) not in contents:
                contents.add((spec.tool, spec.content_hash or ""))
                taken.append(job_id)
                busy[name] += 1
    return taken


def occupied(state: State) -> Counter[str]:
    return Counter(job.spec.pool for job in state.jobs.values() if isinstance(job.place, Leased | Awaiting))


# What holds of commit groups


@given(workloads(prunes=True), st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_a_commit_group_is_the_same_as_its_parts_one_after_the_other(workload: Workload, cuts: list[int]) -> None:
    together, cut, apart = new_world(), new_world(), new_world()
    for number, (step, group) in enumerate(workload):
        for world in (together, cut, apart):
            world.now += step
        outcomes = together.run(*group)
        at = min(cuts[number % len(cuts)], len(group))
        assert cut.run(*group[:at]) + cut.run(*group[at:]) == outcomes
        assert [apart.one(command) for command in group] == outcomes
        assert cut.state == together.state
        assert apart.state == together.state


@given(workloads(prunes=True))
def test_deciding_a_commit_group_again_gives_the_same_bytes_whatever_the_order_of_its_rows(workload: Workload) -> None:
    world = new_world()
    for step, group in workload:
        world.now += step
        first = as_bytes(world.run(*group), world.changes)
        assert world.snapshot is not None
        for snapshot in (world.snapshot, backwards(world.snapshot)):
            changes, outcomes = decide(snapshot, group, POLICY)
            assert as_bytes(outcomes, changes) == first


def backwards(snapshot: Snapshot) -> Snapshot:
    """The same rows in another order; only the lists of waiting jobs have one that means something."""
    turned = {
        name: dict(reversed(list(getattr(snapshot, name).items())))
        for name in snapshot.__struct_fields__
        if name != "now"
    }
    for name in ("reservations_of", "api_keys_of", "hooks_of"):
        turned[name] = {owner: found[::-1] for owner, found in turned[name].items()}
    return Snapshot(snapshot.now, **turned)


def as_bytes(outcomes: list[Outcome], changes: Changes) -> tuple[bytes, bytes]:
    return msgspec.json.encode([outcomes, changes]), msgspec.msgpack.encode([outcomes, changes])


@given(workloads())
def test_deciding_does_not_change_the_snapshot(workload: Workload) -> None:
    world = new_world()
    for step, group in workload:
        world.now += step
        loaded = world.store.snapshot(needs(group))
        before = deepcopy(loaded)
        decide(loaded, group, POLICY)
        assert loaded == before
        world.run(*group)


@given(workloads())
def test_a_refused_command_changes_nothing_and_disturbs_no_neighbour(workload: Workload) -> None:
    world, without = new_world(), new_world()
    for step, group in workload:
        world.now += step
        without.now += step
        outcomes = world.run(*group)
        accepted = [(one, told) for one, told in zip(group, outcomes, strict=True) if not isinstance(told, Refusal)]
        again = without.run(*(command for command, _ in accepted))
        assert list(map(uncounted, again)) == [uncounted(outcome) for _, outcome in accepted]
        assert without_late_words(without.state) == without_late_words(world.state)


def without_late_words(state: State) -> State:
    """A word that came too late is the one thing that a refused command may leave behind, with what the provider
    took."""
    state = copied(state)
    state.events = [replace(event, number=0) for event in state.events if event.kind != "late"]
    state.jobs = {job_id: without_late_counts(job) for job_id, job in state.jobs.items()}
    return state


def without_late_counts(job: Job) -> Job:
    return replace(job, events=0, late_finishes=0, provider_cost=None)


def uncounted(outcome: Outcome) -> Outcome:
    """Without what late words add to."""
    match outcome:
        case Claimed(leases):
            return replace(
                outcome, leases=tuple(replace(lease, job=without_late_counts(lease.job)) for lease in leases)
            )
        case Finished(job) | PollHeld(Job() as job):
            return replace(outcome, job=without_late_counts(job))
        case _:
            return outcome


@given(workloads(), st.data())
def test_without_any_one_loaded_row_a_commit_group_is_decided_the_same_or_not_at_all(
    workload: Workload, data: st.DataObject
) -> None:
    """A rule never takes what was not loaded for what does not exist."""
    world = new_world()
    for step, group in workload:
        world.now += step
        outcomes = world.run(*group)
        assert world.snapshot is not None
        snapshot = world.snapshot
        parts = [(name, key) for name in snapshot.__struct_fields__ if name != "now" for key in getattr(snapshot, name)]
        if not parts:
            continue
        name, key = parts[data.draw(st.integers(0, len(parts) - 1))]
        rest = {one: value for one, value in getattr(snapshot, name).items() if one != key}
        try:
            changes, again = decide(replace(snapshot, **{name: rest}), group, POLICY)
        except NotLoaded:
            continue
        assert as_bytes(again, changes) == as_bytes(outcomes, world.changes)


# What holds in the end


@given(workloads())
@pytest.mark.req("B10")
def test_every_job_comes_to_an_end_once_workers_and_sweepers_are_at_work(workload: Workload) -> None:
    world = new_world()
    for step, group in workload:
        world.now += step
        world.run(*group)
    world.run(*(c.PausePool(name, paused=False) for name in world.state.pools))
    world.run(*(c.ResizePool(name, 1) for name in world.state.pools))
    world.now += 3 * 25 * HOUR  # past whatever the clock said before it went back
    rounds = 0
    while active := [job for job in world.state.jobs.values() if job.place is not None]:
        rounds += 1
        assert rounds < 200, f"still waiting: {active}"
        world.now += 60_000_000
        world.run(*(c.Recover(job.id) for job in active))
        world.run(c.Claim("w9", tuple(world.state.pools), 9))
        held = [job for job in world.state.jobs.values() if isinstance(job.place, Leased | Awaiting)]
        world.run(*(c.Finish(job.id, c.Completed("1"), job.epoch) for job in held))
    assert world.faults() == []
    for account in world.state.accounts.values():
        assert (account.active, account.admitted, account.parked, account.latest_job) == (0, 0, 0, None)


@given(workloads(), st.lists(st.sampled_from([1, 2, 5, None, "gone"]), min_size=1, max_size=20))
@pytest.mark.req("D4")
def test_plans_that_change_with_every_deployment_break_nothing(
    workload: Workload, limits: list[int | str | None]
) -> None:
    world = new_world()
    for number, (step, group) in enumerate(workload):
        limit = limits[number % len(limits)]
        if limit == "gone":
            world.policy = replace(POLICY, plans={})
        else:
            world.policy = POLICY
            world.declare(Plan("tight", max_running=limit), Plan("wide", max_running=limit))  # type: ignore[arg-type]
        world.now += step
        world.run(*group)
        assert violations(world.state) == []


# What a store is told to write


@given(workloads())
def test_the_rows_to_write_say_all_that_became_of_the_jobs(workload: Workload) -> None:
    """A store that only follows `job_rows` has every job as it is: one wide row, and one hot row while it is active."""
    world, rows = new_world(), Rows()
    for step, group in workload:
        world.now += step
        world.run(*group)
        rows.write(world.changes.jobs)
        assert {job_id: rows.read(job_id) for job_id in rows.jobs} == world.state.jobs


class AllSeen(Exception):
    """Nothing more is needed."""


@pytest.mark.long
def test_these_workloads_are_eventful() -> None:
    """A property that nothing ever puts to the test proves nothing."""
    missing = {kind.__name__ for kind in c.Command.__subclasses__()} | {*EVENTS.split(), *CODES.split()}

    @settings(max_examples=2_000, derandomize=True, database=None, phases=[Phase.generate])
    @given(st.booleans().flatmap(lambda prunes: workloads(prunes=prunes)))
    def look(workload: Workload) -> None:
        for world, before, command, outcome in one_by_one(workload):
            missing.discard(outcome.code if isinstance(outcome, Refusal) else type(command).__name__)
            missing.difference_update(event.kind for event in world.state.events[len(before.events) :])
        if not missing:
            raise AllSeen

    with suppress(AllSeen):
        look()
    assert missing == set()


EVENTS = """submitted reused claimed started checkpoint step progress partial log accepted retried recovered returned
    completed failed cancelled late requeued discarded callback removed"""
CODES = """ACTIVE_JOB_EXISTS COST_LIMIT IDEMPOTENCY_MISMATCH INSUFFICIENT_CREDITS INVALID_ARGUMENT INVALID_STATE
    LEASE_LOST NOT_FOUND QUOTA_EXCEEDED RATE_LIMITED"""
