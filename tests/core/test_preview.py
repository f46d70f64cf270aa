"""A preview judges a submit by its numbers, and by the same ladder: it says what the submit then leads to."""

from hypothesis import given
from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core.needs import needs
from ficha.core.outcomes import Refusal, SubmitPreview, Submitted
from ficha.core.policy import Plan
from ficha.core.preview import preview
from tests.core.strategies import POLICY, START_AT, Workload, workloads
from tests.core.world import World
from tests.support.new_jobs import new_job


def previewed(world: World, command: c.Submit, counts: list[int], *, unknown: int = 0) -> SubmitPreview | Refusal:
    return preview(world.store.snapshot(needs([command])), command, counts, world.policy, unknown=unknown)


@given(workloads())
def test_a_preview_says_what_the_submit_leads_to(workload: Workload) -> None:
    world = World(POLICY, now=START_AT)
    for step, group in workload:
        world.now += step
        for command in group:
            asked = c.unwrapped(command)
            if not isinstance(asked, c.Submit) or asked.as_far_as_credits:
                world.one(command)
                continue
            foretold = previewed(world, asked, [1] * len(asked.jobs))
            outcome = world.one(command)
            if isinstance(outcome, Submitted) and outcome.idempotent_hit:
                assert isinstance(foretold, SubmitPreview)
                assert (foretold.first, foretold.jobs, foretold.cost) == (None, outcome.jobs, outcome.cost)
            elif isinstance(outcome, Refusal) and outcome.code == "IDEMPOTENCY_MISMATCH":
                assert isinstance(foretold, SubmitPreview)
            elif isinstance(outcome, Refusal):
                assert foretold == outcome
            else:
                assert isinstance(outcome, Submitted)
                assert isinstance(foretold, SubmitPreview)
                assert foretold.first is not None
                first = world.state.jobs[outcome.job_id]
                assert replace(foretold.first, events=first.events) == first
                assert foretold == SubmitPreview(
                    foretold.first,
                    outcome.jobs,
                    outcome.cost,
                    outcome.new_balance + outcome.cost,
                    outcome.new_balance,
                    outcome.quota_warnings,
                    outcome.cost_limit_warning,
                )


def world_with(plan: Plan, credits: int = 1_000) -> World:
    world = World()
    world.declare(plan)
    world.declare_pools(gpu=None)
    world.run(c.OpenAccount("ana", plan.name, credits))
    return world


def submit(cost: int = 2, **fields: object) -> c.Submit:
    return c.Submit("ana", (new_job("j1", "image", "gpu", "{}", cost),), batch_id="b1", **fields)


def code_of(found: SubmitPreview | Refusal) -> str | None:
    return found.code if isinstance(found, Refusal) else None


def test_jobs_are_counted_not_made() -> None:
    assert code_of(previewed(world_with(Plan("p", max_active=9)), submit(), [9])) is None
    assert code_of(previewed(world_with(Plan("p", max_active=9)), submit(), [10])) == "QUOTA_EXCEEDED"
    assert code_of(previewed(world_with(Plan("p", per_hour=9)), submit(), [10])) == "RATE_LIMITED"
    assert code_of(previewed(world_with(Plan("p", daily_limit=19)), submit(), [10])) == "COST_LIMIT"
    assert code_of(previewed(world_with(Plan("p"), credits=19), submit(), [10])) == "INSUFFICIENT_CREDITS"
    assert code_of(previewed(world_with(Plan("p"), credits=20), submit(), [10])) is None


def test_jobs_that_may_be_answered_by_earlier_results_count_by_the_hour_alone() -> None:
    nothing = replace(submit(), jobs=())
    for plan in (Plan("p", max_active=1), Plan("p", daily_limit=1), Plan("p", per_hour=10)):
        assert code_of(previewed(world_with(plan, credits=0), nothing, [], unknown=10)) is None
    found = previewed(world_with(Plan("p", per_hour=9)), nothing, [], unknown=10)
    assert code_of(found) == "RATE_LIMITED"


def test_a_key_that_was_used_before_is_not_judged() -> None:
    world = world_with(Plan("p", per_hour=1))
    assert isinstance(world.one(submit(key="k")), Submitted)
    assert code_of(previewed(world, submit(key="other"), [10])) == "RATE_LIMITED"
    assert code_of(previewed(world, submit(key="k"), [10])) is None
