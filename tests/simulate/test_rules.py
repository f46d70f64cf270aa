"""A simulation goes through the real rules: what it decides is what the engine decides, and their effects show."""

import pytest
from msgspec.structs import replace

from ficha import Plan
from ficha.core.commands import Command, DeclarePool
from ficha.core.outcomes import Outcome
from ficha.simulate.comparison import ScenarioFigures, figures_of_scenario
from ficha.simulate.replay import replay
from ficha.simulate.scenario import Scenario
from ficha.simulate.synthetic import described, synthetic_traffic
from ficha.simulate.traffic import Traffic
from ficha.simulate.virtual_rows import VirtualRows
from tests.core.world import World
from tests.simulate.shop import START, arrival, figures, scenario, shop, simulated, traffic, waits

PLANS = (
    Plan("free", priority=50, max_running=1, per_hour=6, ageing_s=60),
    Plan("pro", priority=40, max_active=4, daily_limit=300),
)
BUSY = {
    "days": 0.05,
    "jobs_per_day": 4_000,
    "plans": {
        "free": {"share": 2, "accounts": 12, "patience_s": 120, "new_accounts": 1.0},
        "pro": {"share": 1, "accounts": 4, "new_accounts": 1.0},
    },
    "tools": {
        "upscale": {"share": 3, "median_s": 20, "p95_s": 90, "failure_rate": 0.3, "fatal_rate": 0.1},
        "video": {"share": 1, "median_s": 60, "payload": {"seconds": 6}},
    },
}
MONEY = {"free": {"credits": 20, "credits_each_day": 5}, "pro": {"credits": 1_000}}


def busy(seed: int = 1) -> tuple[Scenario, Traffic]:
    """A scenario in which everything happens, and its traffic."""
    app = shop(*PLANS, slots=2, first_job_boost=20)
    setup = scenario(app, plans=MONEY, tools={"upscale": {"max_wait": 300, "timeout": 60}})
    return setup, synthetic_traffic(described(BUSY, setup.policy.plans, app.tools), app.tools, seed)


def test_every_command_is_decided_as_the_engine_decides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Command, int, Outcome]] = []
    decide = VirtualRows.decide

    def telling(rows: VirtualRows, command: Command, now: int) -> Outcome:
        told.append((command, now, decide(rows, command, now)))
        return told[-1][2]

    monkeypatch.setattr(VirtualRows, "decide", telling)
    setup, arrivals = busy()
    replay(setup, arrivals)
    assert len(told) > 300
    assert {type(command).__name__ for command, _, _ in told} >= {"Submit", "Claim", "Finish", "Recover", "CancelJob"}

    world = World(setup.policy, now=START)
    world.run(*(DeclarePool(pool.name, pool.slots) for pool in setup.pools.values()))
    for command, now, outcome in told:
        world.now = now
        assert world.one(command) == outcome
    assert world.faults() == []


def test_everything_happens_in_that_simulation_and_money_is_conserved() -> None:
    found = simulated_busy()
    for name in ("completed", "failed", "abandoned"):
        assert sum(getattr(line, name) for line in found.waits if line.plan == "all") > 0
    assert {"INSUFFICIENT_CREDITS", "RATE_LIMITED", "QUOTA_EXCEEDED"} <= set(found.refusals)
    [whole] = [line for line in found.waits if line.plan == "all"]
    assert whole.submitted == whole.refused + whole.completed + whole.failed + whole.abandoned + whole.cancelled
    assert found.kept == found.charged - found.refunded > 0
    done = replay(*busy())
    assert done.granted - found.kept == done.balance > 0


def simulated_busy(seed: int = 1) -> ScenarioFigures:
    return figures_of_scenario(replay(*busy(seed)))


def test_the_same_seed_gives_the_same_figures_and_another_one_others() -> None:
    assert simulated_busy() == simulated_busy()
    assert simulated_busy() != simulated_busy(2)


def test_a_priority_of_the_policy_turns_the_order_around() -> None:
    app = shop()
    jobs = [arrival(0, "eva"), arrival(1, "ana", "free"), arrival(2, "bo", "pro")]
    equal = figures(app, *jobs)
    assert (waits(equal, "free").wait_max_s, waits(equal, "pro").wait_max_s) == (9, 18)
    first = figures(app, *jobs, plans={"pro": {"priority": 10}})
    assert (waits(first, "free").wait_max_s, waits(first, "pro").wait_max_s) == (19, 8)


def test_more_slots_shorten_the_wait_and_the_use_of_the_pool() -> None:
    jobs = [arrival(n / 10, f"account-{n}", run_s=100) for n in range(4)]
    [one, two] = (figures(shop(slots=slots), *jobs) for slots in (1, 2))
    assert (one.waits[0].wait_max_s, two.waits[0].wait_max_s) == (299.7, 99.8)
    assert (one.pools[0].utilisation, two.pools[0].utilisation) == (round(400 / 3_600, 4), round(200 / 3_600, 4))
    assert (one.pools[0].most_held, two.pools[0].most_held) == (1, 2)


def test_a_plans_limit_parks_although_slots_are_free() -> None:
    jobs = [arrival(0), arrival(0), arrival(0, "bo")]
    found = figures(shop(Plan("free", max_running=1), slots=9), *jobs)
    assert (found.waits[0].wait_p50_s, found.waits[0].wait_max_s) == (0, 10)
    assert figures(shop(slots=9), *jobs).waits[0].wait_max_s == 0


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        (Plan("free", per_hour=2), "RATE_LIMITED"),
        (Plan("free", max_active=2), "QUOTA_EXCEEDED"),
        (Plan("free", max_active=1), "ACTIVE_JOB_EXISTS"),
        (Plan("free", daily_limit=10), "COST_LIMIT"),
    ],
)
def test_a_submit_beyond_a_limit_is_refused_and_counted(plan: Plan, code: str) -> None:
    found = figures(shop(plan, slots=9), *(arrival(n) for n in range(3)))
    assert set(found.refusals) == {code}
    assert found.charged == 5 * (3 - found.refusals[code])


def test_an_account_without_credits_is_refused_until_the_next_day_brings_some() -> None:
    jobs = [arrival(0), arrival(60), arrival(86_400 + 60)]
    whole = Traffic(jobs, START, START + 2 * 86_400_000_000)
    poor = figures_of_scenario(simulated(shop(), whole, plans={"free": {"credits": 5}}))
    assert (poor.refusals, poor.charged) == ({"INSUFFICIENT_CREDITS": 2}, 5)
    given = figures_of_scenario(simulated(shop(), whole, plans={"free": {"credits": 5, "credits_each_day": 5}}))
    assert (given.refusals, given.charged) == ({"INSUFFICIENT_CREDITS": 1}, 10)


def test_failed_and_partly_delivered_jobs_are_refunded() -> None:
    found = figures(
        shop(slots=9),
        arrival(0, end="fatal"),
        arrival(0, end="failed"),
        arrival(0, cost=8, units=4, delivered=3),
        arrival(0, end="cancelled"),
        credit_price=0.5,
    )
    assert (found.charged, found.refunded, found.kept, found.revenue) == (23, 5 + 5 + 2 + 5, 6, 3.0)
    assert (found.waits[0].failed, found.waits[0].completed, found.waits[0].cancelled) == (2, 1, 1)


def test_a_failed_run_is_retried_after_its_backoff() -> None:
    once = simulated(shop(), traffic(arrival(0, failures=1)))
    [flow] = once.flows.values()
    assert (flow.completed, flow.failed, flow.refunded) == (1, 0, 0)
    # Two runs of 10 s; the second one begins 5 to 10 s after the end of the first.
    assert sum(once.pools["gpu"].busy_us) == 20 * 1_000_000
    assert figures(shop(), arrival(0, failures=2)).waits[0].failed == 1
    assert figures(shop(), arrival(0, failures=2), tools={"upscale": {"attempts": 3}}).waits[0].completed == 1


def test_a_run_beyond_the_time_limit_is_failed_and_refunded() -> None:
    found = figures(shop(), arrival(0, run_s=601))
    assert (found.waits[0].failed, found.refunded, found.pools[0].average_held) == (1, 5, round(600 / 3_600, 2))


def test_a_job_that_waits_longer_than_the_tool_or_its_owner_allows_is_abandoned() -> None:
    jobs = [arrival(0, run_s=100), arrival(1, "bo")]
    assert figures(shop(), *jobs, tools={"upscale": {"max_wait": 50}}).waits[0].abandoned == 1
    assert figures(shop(), *jobs, tools={"upscale": {"max_wait": 99.5}}).waits[0].abandoned == 0
    impatient = figures(shop(), jobs[0], arrival(1, "bo", patience_us=50_000_000))
    assert (impatient.waits[0].abandoned, impatient.refunded) == (1, 5)


def test_ageing_lets_a_waiting_job_pass_newer_ones_of_a_better_plan() -> None:
    jobs = [arrival(0, "eva", "pro", run_s=100), arrival(0, "ana"), arrival(90, "bo", "pro")]
    strict = {"free": {"priority": 20}, "pro": {"priority": 15}}
    assert waits(figures(shop(), *jobs, plans=strict), "free").wait_max_s == 110
    ageing = {"free": {"priority": 20, "ageing_s": 10}, "pro": {"priority": 15, "ageing_s": 10}}
    assert waits(figures(shop(), *jobs, plans=ageing), "free").wait_max_s == 100


def test_jobs_that_no_slot_can_ever_take_are_counted_as_not_ended() -> None:
    found = figures(shop(Plan("free", ageing_s=1)), arrival(0), pools={"gpu": {"slots": 0}})
    assert (found.waits[0].unended, found.waits[0].started, found.pools) == (1, 0, [])


def test_workers_limit_what_runs_at_once_where_a_pool_does_not() -> None:
    jobs = [arrival(0, f"account-{n}") for n in range(4)]
    endless = figures(shop(slots=None), *jobs)
    assert (endless.waits[0].wait_max_s, endless.pools[0].utilisation) == (0, None)
    two = figures(shop(slots=None), *jobs, workers=[{"pools": ["gpu"], "concurrency": 1, "processes": 2}])
    assert (two.waits[0].wait_max_s, two.pools[0].limit, two.pools[0].most_held) == (10, 2, 2)


def test_a_job_with_a_provider_holds_a_slot_and_no_worker() -> None:
    app = shop(slots=2)
    app.policy = replace(app.policy, provider_tools=frozenset({"upscale"}))
    jobs = [arrival(0, f"account-{n}") for n in range(3)]
    found = figures(app, *jobs, workers=[{"pools": ["gpu"], "concurrency": 1}])
    assert (found.waits[0].wait_p50_s, found.waits[0].wait_max_s, found.pools[0].most_held) == (0, 10, 2)
    # Two jobs become ready at once when their account changes its plan, for a worker that is free for one.
    plans = shop(Plan("free", max_running=1), Plan("pro"), slots=9)
    plans.policy = replace(plans.policy, provider_tools=frozenset({"upscale"}))
    jobs = [arrival(0), arrival(1), arrival(2), arrival(3, plan="pro")]
    found = figures(plans, *jobs, workers=[{"pools": ["gpu"], "concurrency": 1}])
    assert (found.waits[0].wait_max_s, found.pools[0].most_held) == (2, 4)
    assert figures(app, arrival(0, run_s=700)).waits[0].failed == 1
    assert figures(app, arrival(0, failures=1)).waits[0].completed == 1


def test_an_accounts_first_job_ever_gets_its_boost_and_no_later_one() -> None:
    app = shop(first_job_boost=20)
    first = [arrival(0, "eva"), arrival(1, "ana"), arrival(2, "new", is_first=True)]
    served = simulated(app, traffic(*first)).flows["free", "upscale"]
    assert [*served.waits] == [0, 8_000_000, 19_000_000]
    later = simulated(app, traffic(*first[:2], arrival(2, "new"))).flows["free", "upscale"]
    assert [*later.waits] == [0, 9_000_000, 18_000_000]


def test_an_account_that_changes_its_plan_has_the_limits_of_the_new_one() -> None:
    app = shop(Plan("free", max_running=1), Plan("pro"), slots=9)
    found = figures(app, arrival(0), arrival(1), arrival(2, plan="pro"))
    assert (waits(found, "free").wait_max_s, waits(found, "pro").wait_max_s) == (1, 0)


def test_a_free_slot_is_filled_after_the_time_that_workers_take() -> None:
    jobs = [arrival(0), arrival(1, "bo")]
    assert [*simulated(shop(), traffic(*jobs), pickup_s=2).flows["free", "upscale"].waits] == [2_000_000, 13_000_000]
    recorded = replace(traffic(*jobs), pickup_us=500_000)
    assert [*simulated(shop(), recorded).flows["free", "upscale"].waits] == [500_000, 10_000_000]
    assert [*simulated(shop(), recorded, pickup_s=0).flows["free", "upscale"].waits] == [0, 9_000_000]


def test_a_worker_of_two_pools_goes_on_with_the_other_one() -> None:
    jobs = [arrival(0), arrival(1, "bo", tool="video")]
    workers = [{"pools": ["gpu", "default"], "concurrency": 1}]
    for pickup_s, wait_us in ((0, 9_000_000), (2, 13_000_000)):
        done = simulated(
            shop(slots=9), traffic(*jobs), workers=workers, pickup_s=pickup_s, tools={"video": {"pool": "default"}}
        )
        assert [*done.flows["free", "video"].waits] == [wait_us]
