"""Made-up traffic from a description: how many jobs a day and at which hours, of which plans and tools, how long they
run, how often they fail. The same description and seed make the same traffic."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import UTC, date, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ..core.outcomes import Refusal
from ..core.payload import canonical
from ..core.policy import DAY, HOUR, SECOND
from ..engine.views import instant
from ..job_files import FoundFiles, JobFile
from ..tools import PayloadMismatch, Tool
from .toml_tables import check_keys, named_tables, read_table, read_toml
from .traffic import Arrival, Traffic, Unusable

MOST_JOBS: Final = 20_000_000
P95: Final = 1.6448536269514722
"""The 95th percentile of the standard normal distribution."""
MONDAY: Final = date(2026, 1, 5)
"""When made-up traffic starts unless its description says so."""
TABLES: Final = ("days", "jobs_per_day", "start", "by_hour", "by_weekday", "plans", "tools")


class PlanTraffic(Struct, frozen=True):
    """The customers of a plan.

    share: of all jobs, in relation to the other plans. accounts: how many there are. heavy_accounts: the share of them
    that are heavy users, who submit `heavy_share` of the plan's jobs. new_accounts: the share of them whose first job
    ever is in the traffic. patience_s: how long an owner waits on average before they cancel; 0: for ever.
    """

    share: float
    accounts: int = 100
    heavy_accounts: float = 0.1
    heavy_share: float = 0.5
    new_accounts: float = 0.0
    patience_s: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.accounts <= 1_000_000:
            raise ValueError(f"accounts must be a whole number from 1 to 1000000, not {self.accounts!r}")
        _check_shares(self, "heavy_accounts", "heavy_share", "new_accounts")
        _check_positive(self, "share", "patience_s")


class ToolTraffic(Struct, frozen=True):
    """The jobs of a tool.

    share: of all jobs, in relation to the other tools. median_s, p95_s: the median and the 95th percentile of how long
    runs take. failure_rate: the share of runs that fail. fatal_rate: the share of jobs that fail with an error that is
    not retried. payload: what the tool computes cost and items from. cost: a fixed cost, instead of a payload.
    """

    share: float
    median_s: float
    p95_s: float | None = None
    failure_rate: float = 0.0
    fatal_rate: float = 0.0
    payload: dict[str, Any] | None = None
    cost: int | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "share", "median_s")
        if not self.median_s > 0:
            raise ValueError("median_s must be more than 0")
        if self.p95_s is not None and self.p95_s < self.median_s:
            raise ValueError(f"p95_s ({self.p95_s:g}) must not be less than median_s ({self.median_s:g})")
        _check_shares(self, "failure_rate", "fatal_rate")


def _check_shares(table: Struct, *names: str) -> None:
    for name in names:
        if not 0 <= getattr(table, name) <= 1:
            raise ValueError(f"{name} must be a number from 0 to 1, not {getattr(table, name)!r}")


def _check_positive(table: Struct, *names: str) -> None:
    for name in names:
        if not 0 <= getattr(table, name) < math.inf:
            raise ValueError(f"{name} must be a number from 0 up, not {getattr(table, name)!r}")


class Description(Struct, frozen=True):
    """Made-up traffic, described. by_hour, by_weekday: how busy each hour (UTC) and weekday (from Monday) is, in
    relation to the others."""

    days: float
    jobs_per_day: float
    start: date
    by_hour: list[float]
    by_weekday: list[float]
    plans: Mapping[str, PlanTraffic]
    tools: Mapping[str, ToolTraffic]


def read_description(path: Path, plans: Mapping[str, Any], tools: Mapping[str, Any]) -> Description:
    """Reads a file that describes traffic of these plans and tools."""
    try:
        return described(read_toml(path), plans, tools)
    except Unusable as error:
        raise Unusable(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def described(table: Mapping[str, Any], plans: Mapping[str, Any], tools: Mapping[str, Any]) -> Description:
    check_keys(table, TABLES, "")
    start = table.get("start", MONDAY)
    if not isinstance(start, date):
        raise Unusable(f"start must be a date such as 2026-01-05, not {start!r}")
    of_plans = named_tables(table.get("plans", {}), plans, "plans", "plan")
    of_tools = named_tables(table.get("tools", {}), tools, "tools", "tool")
    found = Description(
        days=_amount(table.get("days", 7), "days", 3_650),
        jobs_per_day=_amount(table.get("jobs_per_day"), "jobs_per_day", MOST_JOBS),
        start=start,
        by_hour=_weights(table.get("by_hour", [1] * 24), "by_hour", 24),
        by_weekday=_weights(table.get("by_weekday", [1] * 7), "by_weekday", 7),
        plans={name: read_table(inner, PlanTraffic, f"plans.{name}") for name, inner in of_plans.items()},
        tools={name: read_table(inner, ToolTraffic, f"tools.{name}") for name, inner in of_tools.items()},
    )
    for noun, described_ones in (("plans", found.plans), ("tools", found.tools)):
        if not sum(one.share for one in described_ones.values()):
            raise Unusable(f"{noun}: describe at least one with a share above 0")
    if found.days * found.jobs_per_day > MOST_JOBS:
        raise Unusable(f"days and jobs_per_day make more than {MOST_JOBS} jobs, which is the most")
    return found


def _amount(value: Any, key: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise Unusable(f"{key} must be a number above 0 and up to {most:g}, not {value!r}")
    return value


def _weights(value: Any, key: str, count: int) -> list[float]:
    is_list = isinstance(value, list) and len(value) == count
    if not is_list or not all(isinstance(one, int | float) and 0 <= one < math.inf for one in value) or not sum(value):
        raise Unusable(f"{key} must be a list of {count} numbers from 0 up, not all 0")
    return [float(one) for one in value]


def synthetic_traffic(description: Description, tools: Mapping[str, Tool], seed: int) -> Traffic:
    """Makes the traffic of a description."""
    draw = random.Random(seed)  # noqa: S311 (made-up traffic, no secret)
    starts_at = instant(datetime(description.start.year, description.start.month, description.start.day, tzinfo=UTC))
    ends_at = starts_at + int(description.days * DAY)
    moments = _moments(description, draw, starts_at, ends_at)
    kinds = {name: _parts(tools[name], one, f"tools.{name}") for name, one in description.tools.items()}
    sigmas = {
        name: 0.0 if one.p95_s is None else math.log(one.p95_s / one.median_s) / P95
        for name, one in description.tools.items()
    }
    plan_names, plan_shares = [*description.plans], [*accumulate(p.share for p in description.plans.values())]
    tool_names, tool_shares = [*description.tools], [*accumulate(t.share for t in description.tools.values())]
    accounts = {name: _Accounts(name, one) for name, one in description.plans.items()}
    arrivals = []
    for at in moments:
        plan = draw.choices(plan_names, cum_weights=plan_shares)[0]
        tool = draw.choices(tool_names, cum_weights=tool_shares)[0]
        account, is_first = accounts[plan].drawn(draw)
        patience_s, of_tool = description.plans[plan].patience_s, description.tools[tool]
        patience_us = int(draw.expovariate(1 / patience_s) * SECOND) if patience_s else None
        for cost, units in kinds[tool]:
            run_s = of_tool.median_s * math.exp(sigmas[tool] * draw.gauss(0.0, 1.0))
            failures = 0
            while of_tool.failure_rate and failures < 100 and draw.random() < of_tool.failure_rate:
                failures += 1
            is_fatal = of_tool.fatal_rate > 0 and draw.random() < of_tool.fatal_rate
            arrivals.append(
                Arrival(
                    at, account, plan, tool, max(1, int(run_s * SECOND)), cost, units,
                    failures=failures, end="fatal" if is_fatal else "completed",
                    patience_us=patience_us, is_first=is_first,
                )
            )  # fmt: skip
            is_first = False
    return Traffic(arrivals, starts_at, ends_at)


def _moments(description: Description, draw: random.Random, starts_at: int, ends_at: int) -> list[int]:
    """Returns when jobs are submitted: at random, with each hour's weight. A day of average weight has
    `jobs_per_day`."""
    by_hour, by_weekday = description.by_hour, description.by_weekday
    begins = range(starts_at, ends_at, HOUR)
    weekday = description.start.weekday()
    weights = [
        by_hour[number % 24] * by_weekday[(weekday + number // 24) % 7] * (min(begin + HOUR, ends_at) - begin)
        for number, begin in enumerate(begins)
    ]
    if not sum(weights):
        raise Unusable("by_hour and by_weekday leave no hour of these days in which jobs come")
    jobs = max(1, round(description.days * description.jobs_per_day))
    hours = draw.choices(begins, weights=weights, k=jobs)
    return sorted(begin + int(draw.random() * (min(begin + HOUR, ends_at) - begin)) for begin in hours)


class _Accounts:
    """The accounts of a plan: the first ones are the heavy users."""

    def __init__(self, plan: str, described: PlanTraffic) -> None:
        self._names = [f"{plan}-{number + 1}" for number in range(described.accounts)]
        heavy = round(described.accounts * described.heavy_accounts)
        self._heavy = min(heavy, described.accounts)
        self._share = described.heavy_share if 0 < self._heavy < described.accounts else float(self._heavy > 0)
        self._new = {
            name for name in self._names[len(self._names) - round(described.accounts * described.new_accounts) :]
        }

    def drawn(self, draw: random.Random) -> tuple[str, bool]:
        """An account, and whether this is its first job ever."""
        heavy = draw.random() < self._share
        start, stop = (0, self._heavy) if heavy else (self._heavy, len(self._names))
        name = self._names[start + int(draw.random() * (stop - start))]
        is_first = name in self._new
        self._new.discard(name)
        return name, is_first


def _parts(tool: Tool, described: ToolTraffic, where: str) -> list[tuple[int | None, int]]:
    """Returns the cost and the number of items of each job of a submit, as the tool computes them from the payload."""
    if described.cost is not None:
        if described.cost < 0:
            raise Unusable(f"{where}.cost must be whole credits from 0 up, not {described.cost}")
        return [(described.cost, 1)]
    if described.payload is None:
        if callable(tool.cost):
            raise Unusable(f"{where}: what it costs depends on the payload; add {where}.payload, or {where}.cost")
        return [(None, 1)]
    value = _fitting(tool, described.payload, where)
    units = _passed(tool.units_of(described.payload, value), where)
    parts: list[tuple[int | None, int]] = []
    for payload, size, count in tool.parts(described.payload, value, units):
        part = _fitting(tool, payload, where)
        parts += [(_passed(tool.cost_of(part), where), size)] * count
    return parts


def _fitting(tool: Tool, payload: Mapping[str, Any], where: str) -> Any:
    """The payload as the handler would get it."""
    text = canonical(payload, what="the payload", max_bytes=1_000_000, max_depth=64)
    if isinstance(text, Refusal):
        raise Unusable(f"{where}.payload: {text.message}")
    found = FoundFiles(JobFile) if tool.payload.has_files else None
    try:
        return tool.arguments(text, found)
    except PayloadMismatch as mismatch:
        raise Unusable(f"{where}.payload: {mismatch}") from None


def _passed(value: int | Refusal, where: str) -> int:
    if isinstance(value, Refusal):
        raise Unusable(f"{where}.payload: {value.message}")
    return value
