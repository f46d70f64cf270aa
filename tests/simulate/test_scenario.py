"""Scenarios change what an application declares, and tell what is wrong with a file by the key."""

from pathlib import Path
from typing import Any

import pytest

from ficha import JobContext, Plan
from ficha.simulate.scenario import changed, changed_by_file, changed_by_settings, today
from ficha.simulate.traffic import Unusable
from tests.simulate.shop import arrival, figures, shop, simulated, traffic

FILE = """
name = "pro first"
arrivals = 1.3
credit_price = 0.01
first_job_boost = 10

[plans.pro]
priority = 5
max_running = 8
per_hour = "none"
credits = 100

[tools.upscale]
cost = 6
timeout = 30

[tools.video]
cost_factor = 1.5
run_factor = 0.5
pool = "fast"

[pools.gpu]
slots = 5

[pools.fast]
slots = 1

[[workers]]
pools = ["gpu", "fast"]
concurrency = 20
processes = 5
"""


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    app = shop(Plan("free", per_hour=3), Plan("pro", per_hour=9, max_active=7))
    path = tmp_path / "change.toml"
    path.write_text(FILE)
    found = changed_by_file(today(app), path)
    assert (found.name, found.arrivals, found.credit_price) == ("pro first", 1.3, 0.01)
    assert found.policy.plans["pro"] == Plan("pro", priority=5, max_running=8, max_active=7)
    assert found.policy.plans["free"] == app.policy.plans["free"]
    assert found.policy.first_job_boost == 10
    assert (found.pools["gpu"].slots, found.pools["fast"].slots) == (5, 1)
    assert (found.tools["upscale"].timeout, found.tools["video"].pool) == (30, "fast")
    assert found.workers[0].concurrency * found.workers[0].processes == 100
    assert (found.price("upscale", 5), found.price("video", 10), today(app).price("upscale", None)) == (6, 15, 5)
    assert found.run_us("video", 10) == 5
    path.write_text("arrivals = 2")
    assert changed_by_file(today(app), path).name == "change"


def test_settings_are_a_scenario_too() -> None:
    found = changed_by_settings(
        today(shop()), ["pools.gpu.slots=5", "plans.pro.priority=5", "tools.video.pool=default"]
    )
    assert (found.name, found.pools["gpu"].slots, found.tools["video"].pool) == ("change", 5, "default")
    for wrong in ("pools.gpu.slots", "=5", "pools..slots=5"):
        with pytest.raises(Unusable, match=r"write --set KEY=VALUE"):
            changed_by_settings(today(shop()), [wrong])
    with pytest.raises(Unusable, match="has a value already"):
        changed_by_settings(today(shop()), ["pools=5", "pools.gpu.slots=5"])


def test_an_application_with_a_free_schedule_can_be_changed() -> None:
    """Its policy has a plan of Ficha's own, which no application may declare."""
    app = shop()

    @app.cron("@daily")
    async def tidy(job: JobContext) -> None: ...

    found = changed_by_settings(today(app), ["plans.pro.priority=5"])
    assert (found.policy.plans["pro"].priority, *found.policy.plans) == (5, "free", "pro", "ficha:schedules")
    of_schedule = arrival(0, "ficha:schedules", "ficha:schedules", cost=0)
    assert figures(app, of_schedule).waits[0].submitted == 1


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"plan": {}}, "plan is not known; allowed are: arrivals, credit_price"),
        ({"plans": {"gold": {}}}, "plans.gold: there is no plan 'gold'; declared are: free, pro"),
        ({"plans": {"pro": {"pirority": 1}}}, "plans.pro.pirority is not known; allowed are: ageing_s, credits"),
        ({"plans": {"pro": {"priority": "high"}}}, "priority must be a whole number within ±1000, not 'high'"),
        ({"plans": {"pro": {"max_running": 0}}}, "max_running must be a whole number from 1 up or None, not 0"),
        ({"plans": {"pro": {"credits": -1}}}, "plans.pro.credits must be whole credits from 0"),
        ({"plans": {"pro": 5}}, "plans.pro must be a table, not 5"),
        ({"plans": 5}, "plans must be a table, not 5"),
        ({"tools": {"upscal": {}}}, "tools.upscal: there is no tool 'upscal'; declared are: upscale, video"),
        ({"tools": {"upscale": {"isolation": "x"}}}, "tools.upscale.isolation is not known; allowed are: attempts"),
        ({"tools": {"upscale": {"cost": -1}}}, "tools.upscale: cost must be whole credits from 0 up, not -1"),
        ({"tools": {"upscale": {"cost": "free"}}}, "tools.upscale.cost is 'free': expected `int"),
        ({"tools": {"upscale": {"cost": 1, "cost_factor": 2}}}, "tools.upscale: cost and cost_factor cannot both"),
        ({"tools": {"upscale": {"run_factor": -1}}}, "tools.upscale: run_factor must be a number from 0 to 1000"),
        ({"tools": {"upscale": {"pool": "fast"}}}, "tools.upscale.pool: there is no pool 'fast'; declared are"),
        ({"pools": {"gpo": {"slots": 1}}}, "pools.gpo: there is no pool 'gpo' and no tool is moved to it"),
        ({"pools": {"gpu": {"slots": -1}}}, "slots must be a whole number from 0 to 1000000 or None, not -1"),
        ({"pools": {"gpu": {"slot": 1}}}, "pools.gpu.slot is not known; allowed are: slots"),
        ({"workers": {}}, "workers must be a list of tables: write [[workers]]"),
        ({"workers": [{}]}, "workers.pools is missing"),
        ({"workers": [{"pools": ["cpu"]}]}, "workers.pools: there is no pool 'cpu'; declared are: default, gpu"),
        ({"workers": [{"pools": ["gpu"], "concurrency": 0}]}, "concurrency must be a whole number from 1 to 1000000"),
        ({"arrivals": -1}, "arrivals must be a number from 0 to 100, not -1"),
        ({"pickup_s": -1}, "pickup_s must be a number from 0 to 3600, not -1"),
        ({"credit_price": "x"}, "credit_price must be a number from 0"),
        ({"first_job_boost": 1.5}, "first_job_boost must be a whole number within ±1000, not 1.5"),
        ({"name": ""}, "name must be a text of 1 to 100 characters, not ''"),
    ],
)
def test_an_error_names_the_key_and_what_is_allowed(table: dict[str, Any], says: str) -> None:
    with pytest.raises(Unusable) as told:
        changed(today(shop()), table)
    assert says in str(told.value)


def test_an_error_of_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "change.toml"
    path.write_text("plans = 5")
    with pytest.raises(Unusable, match=r"change\.toml: plans must be a table, not 5"):
        changed_by_file(today(shop()), path)
    path.write_text("plans = ")
    with pytest.raises(Unusable, match=r"change\.toml is not TOML: "):
        changed_by_file(today(shop()), path)
    with pytest.raises(Unusable, match=r"none\.toml cannot be read: No such file"):
        changed_by_file(today(shop()), tmp_path / "none.toml")


def test_growth_adds_jobs_of_further_accounts_and_shrinking_leaves_some_out() -> None:
    base = traffic(*(arrival(n, "ana") for n in range(1_000)))
    grown = base.grown(2.5)
    assert 2_400 < len(grown.arrivals) < 2_600
    assert {one.account for one in grown.arrivals} == {"ana", "ana~1", "ana~2"}
    assert [one.at for one in grown.arrivals] == sorted(one.at for one in grown.arrivals)
    assert grown.arrivals[-1].at < base.ends_at
    assert grown == base.grown(2.5)
    assert 250 < len(base.grown(0.3).arrivals) < 350
    assert base.grown(1) is base
    assert base.grown(0).arrivals == []
    assert figures(shop(), arrival(0), arrivals=2).jobs == 2
    assert simulated(shop(), traffic(arrival(0)), arrivals=0).accounts == 0


@pytest.mark.parametrize(("name", "noun"), [("gold", "plan"), ("draw", "tool")])
def test_traffic_of_what_is_not_declared_is_refused(name: str, noun: str) -> None:
    with pytest.raises(Unusable, match=f"jobs of the {noun} '{name}', which is not declared; declared are: "):
        simulated(shop(), traffic(arrival(0, **{noun: name})))
