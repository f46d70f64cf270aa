"""An application to simulate, and traffic written by hand."""

from __future__ import annotations

from typing import Any

from ficha import Ficha, JobContext, Plan, Pool
from ficha.core.policy import SECOND
from ficha.simulate.comparison import ScenarioFigures, WaitLine, figures_of_scenario
from ficha.simulate.replay import Simulated, replay
from ficha.simulate.scenario import Scenario, changed, today
from ficha.simulate.traffic import Arrival, Traffic

START = 1_773_100_800 * SECOND
"""2026-03-10 00:00 UTC."""


def shop(*plans: Plan, slots: int | None = 1, **options: Any) -> Ficha:
    app = Ficha("memory:", plans=plans or [Plan("free"), Plan("pro")], pools=[Pool("gpu", slots=slots)], **options)

    @app.tool(pool="gpu", cost=5, timeout=600, attempts=2, backoff=10)
    async def upscale(job: JobContext, image: str = "") -> None: ...

    @app.tool(pool="gpu", cost=lambda seconds: 10 * seconds, items="seconds", max_items=4)
    async def video(job: JobContext, seconds: int = 1) -> None: ...

    return app


def arrival(at_s: float, account: str = "ana", plan: str = "free", run_s: float = 10, **more: Any) -> Arrival:
    tool = more.pop("tool", "upscale")
    return Arrival(START + int(at_s * SECOND), account, plan, tool, int(run_s * SECOND), **{"cost": 5, **more})


def traffic(*arrivals: Arrival) -> Traffic:
    return Traffic([*arrivals], START, START + 3_600 * SECOND)


def simulated(app: Ficha, given: Traffic, /, **changes: Any) -> Simulated:
    return replay(scenario(app, **changes), given)


def scenario(app: Ficha, **changes: Any) -> Scenario:
    return changed(today(app), changes)


def figures(app: Ficha, /, *jobs: Arrival, **changes: Any) -> ScenarioFigures:
    return figures_of_scenario(simulated(app, traffic(*jobs), **changes))


def waits(found: ScenarioFigures, plan: str) -> WaitLine:
    return next(line for line in found.waits if line.plan == plan)
