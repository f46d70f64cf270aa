"""Scenarios: what the application declares, with some of it changed by a TOML file or by `--set`.

The values are checked by the same code as those of an application.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, fields, replace

from ..core.outcomes import Refusal
from ..core.policy import MAX_AMOUNT, Plan, Policy
from ..core.records import Pool
from ..declarations import MAX_SLOTS, checked_numbers, checked_plans, checked_pools, is_whole
from ..declared_parts import DeclaredParts
from ..tools import Tool
from .toml_tables import check_keys, named_tables, read_table, read_toml
from .traffic import Unusable

TODAY: Final = "today"
NO_LIMIT: Final = "none"
"""TOML has no null: this word takes a limit away."""
TABLES: Final = (
    "name",
    "arrivals",
    "credit_price",
    "first_job_boost",
    "pickup_s",
    "plans",
    "tools",
    "pools",
    "workers",
)


class PlanMoney(Struct, frozen=True, gc=False):
    """What accounts of a plan are given: when the simulation starts, and at the beginning of each further UTC day."""

    credits: int | None = None
    credits_each_day: int = 0


class ToolChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a tool that a scenario can change; the names are those of `app.tool`.

    cost_factor: what its jobs cost now, times this. run_factor: how long its runs take, times this.
    """

    cost: int | UnsetType = UNSET
    pool: str | UnsetType = UNSET
    timeout: float | UnsetType = UNSET
    max_wait: float | UnsetType | None = UNSET
    attempts: int | UnsetType = UNSET
    backoff: float | UnsetType = UNSET
    backoff_max: float | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    cost_factor: float = 1.0
    run_factor: float = 1.0

    def __post_init__(self) -> None:
        for name in ("cost_factor", "run_factor"):
            if not 0 <= getattr(self, name) <= 1_000:
                raise ValueError(f"{name} must be a number from 0 to 1000, not {getattr(self, name)!r}")
        if self.cost is not UNSET and self.cost_factor != 1:
            raise ValueError("cost and cost_factor cannot both be given")


class WorkerGroup(Struct, frozen=True):
    """Worker processes that serve the same pools, each with `concurrency` jobs at once."""

    pools: tuple[str, ...]
    concurrency: int = 10
    processes: int = 1

    def __post_init__(self) -> None:
        for name in ("concurrency", "processes"):
            if not is_whole(getattr(self, name), 1, MAX_SLOTS):
                raise ValueError(f"{name} must be a whole number from 1 to {MAX_SLOTS}, not {getattr(self, name)!r}")
        if not self.pools:
            raise ValueError("pools must name at least one pool")


class Scenario(Struct, frozen=True):
    """Everything that a simulation needs beside the traffic.

    arrivals: the factor that multiplies the traffic. workers: if there are none, workers are never short.
    credit_price: what a credit is sold for, to compute the revenue; None: unknown. pickup_s: how long a free slot stays
    free although a job waits; None: as long as in the recording, and no time in made-up traffic.
    """

    name: str
    policy: Policy
    pools: Mapping[str, Pool]
    tools: Mapping[str, Tool]
    arrivals: float = 1.0
    workers: tuple[WorkerGroup, ...] = ()
    credit_price: float | None = None
    pickup_s: float | None = None
    money: Mapping[str, PlanMoney] = {}
    changes: Mapping[str, ToolChange] = {}

    def price(self, tool: str, recorded: int | None) -> int:
        """What a job of this tool costs now."""
        change = self.changes.get(tool, _UNCHANGED)
        if not isinstance(change.cost, UnsetType):
            return change.cost
        cost = recorded
        if cost is None:
            declared = self.tools[tool].cost_of({})
            if isinstance(declared, Refusal):
                raise Unusable(f"the cost of tool {tool} depends on the payload; give a payload or a cost for it")
            cost = declared
        return cost if change.cost_factor == 1 else round(cost * change.cost_factor)

    def run_us(self, tool: str, run_us: int) -> int:
        factor = self.changes.get(tool, _UNCHANGED).run_factor
        return run_us if factor == 1 else int(run_us * factor)

    @property
    def has_endless_credits(self) -> bool:
        """Whether no plan says what its accounts are given, so that none of them runs out."""
        return all(money.credits is None for money in self.money.values())


_UNCHANGED: Final = ToolChange()


def today(app: DeclaredParts, name: str = TODAY) -> Scenario:
    """The application as it is declared. Hooks and webhooks are left out: they change no wait and no balance."""
    policy = replace(app.policy, hooks=(), webhooks=None)
    return Scenario(name, policy, dict(app.declared_pools), dict(app.tools))


def changed_by_file(scenario: Scenario, path: Path) -> Scenario:
    """The scenario of a file; its name is the file's unless the file has one."""
    try:
        return changed(replace(scenario, name=path.stem), read_toml(path))
    except Unusable as error:
        raise Unusable(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def changed_by_settings(scenario: Scenario, settings: Iterable[str]) -> Scenario:
    """The scenario of settings such as `plans.pro.priority=5`."""
    table: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        path = key.strip().split(".")
        if not equals or not all(path):
            raise Unusable(f"write --set KEY=VALUE, such as pools.gpu.slots=5, not {setting!r}")
        inner = table
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise Unusable(f"--set {setting}: {part} has a value already")
        inner[path[-1]] = _value(text.strip())
    return changed(replace(scenario, name="change"), table)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def changed(scenario: Scenario, table: Mapping[str, Any]) -> Scenario:
    """The scenario with the changes of a table."""
    check_keys(table, TABLES, "")
    tools, changes = _tools(scenario, table.get("tools", {}))
    pools = _pools(scenario, table.get("pools", {}), {tool.pool for tool in tools.values()})
    for name, tool in tools.items():
        if tool.pool not in pools:
            raise Unusable(f"tools.{name}.pool: there is no pool {tool.pool!r}; declared are: {', '.join(pools)}")
    plans, money = _plans(scenario, table.get("plans", {}))
    boost = table.get("first_job_boost", scenario.policy.first_job_boost)
    if not is_whole(boost, -1_000, 1_000):
        raise Unusable(f"first_job_boost must be a whole number within ±1000, not {boost!r}")
    return replace(
        scenario,
        name=_name(table.get("name", scenario.name)),
        policy=replace(scenario.policy, plans=plans, first_job_boost=boost),
        pools=pools,
        tools=tools,
        arrivals=_number(table.get("arrivals", scenario.arrivals), "arrivals", 100),
        credit_price=_price(table.get("credit_price", scenario.credit_price)),
        pickup_s=_pickup(table.get("pickup_s", scenario.pickup_s)),
        workers=_workers(scenario, table.get("workers"), pools),
        money=money,
        changes=changes,
    )


def _plans(scenario: Scenario, table: Any) -> tuple[Mapping[str, Plan], Mapping[str, PlanMoney]]:
    plans, money = dict(scenario.policy.plans), dict(scenario.money)
    given = {field.name for field in fields(PlanMoney)}
    allowed = {field.name for field in fields(Plan)} - {"name"} | given
    for name, changes in named_tables(table, plans, "plans", "plan").items():
        check_keys(changes, allowed, f"plans.{name}")
        values = {key: _limit(value) for key, value in changes.items() if key not in given}
        plans[name] = replace(plans[name], **values)
        about_money = {key: value for key, value in changes.items() if key in given}
        if about_money:
            before = asdict(money.get(name, PlanMoney()))
            money[name] = _money({**before, **about_money}, f"plans.{name}")
    try:
        return checked_plans(plans.values()), money
    except ValueError as error:
        raise Unusable(f"plans: {error}") from None


def _money(table: dict[str, Any], where: str) -> PlanMoney:
    for key, value in table.items():
        if not is_whole(value, 0, MAX_AMOUNT) and (key, value) != ("credits", None):
            raise Unusable(f"{where}.{key} must be whole credits from 0 to {MAX_AMOUNT}, not {value!r}")
    return PlanMoney(**table)


def _limit(value: Any) -> Any:
    return None if value == NO_LIMIT else value


def _tools(scenario: Scenario, table: Any) -> tuple[Mapping[str, Tool], Mapping[str, ToolChange]]:
    tools, changes = dict(scenario.tools), dict(scenario.changes)
    longest_s = scenario.policy.max_age_ms / 1_000
    for name, given in named_tables(table, tools, "tools", "tool").items():
        check_keys(given, {field.name for field in fields(ToolChange)}, f"tools.{name}")
        change = read_table({key: _limit(value) for key, value in given.items()}, ToolChange, f"tools.{name}")
        values = {key: value for key, value in asdict(change).items() if value is not UNSET}
        own = {key: value for key, value in values.items() if key not in ("cost_factor", "run_factor")}
        try:
            tools[name] = checked_numbers(replace(tools[name], **own), longest_s)
        except ValueError as error:
            raise Unusable(f"tools.{name}: {error}") from None
        changes[name] = change
    return tools, changes


def _pools(scenario: Scenario, table: Any, used: set[str]) -> Mapping[str, Pool]:
    pools = dict(scenario.pools)
    if not isinstance(table, Mapping):
        raise Unusable(f"pools must be a table, not {table!r}")
    for name, given in table.items():
        if name not in pools and name not in used:
            raise Unusable(
                f"pools.{name}: there is no pool {name!r} and no tool is moved to it; declared are: {', '.join(pools)}"
            )
        check_keys(given, {"slots"}, f"pools.{name}")
        if "slots" in given:
            pools[name] = Pool(name, _limit(given["slots"]))
    try:
        return checked_pools(pools.values())
    except ValueError as error:
        raise Unusable(f"pools: {error}") from None


def _workers(scenario: Scenario, given: Any, pools: Mapping[str, Pool]) -> tuple[WorkerGroup, ...]:
    if given is None:
        return scenario.workers
    if not isinstance(given, list):
        raise Unusable("workers must be a list of tables: write [[workers]]")
    groups = tuple(read_table(table, WorkerGroup, "workers") for table in given)
    for group in groups:
        for pool in group.pools:
            if pool not in pools:
                raise Unusable(f"workers.pools: there is no pool {pool!r}; declared are: {', '.join(pools)}")
    return groups


def _name(value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 100:
        raise Unusable(f"name must be a text of 1 to 100 characters, not {value!r}")
    return value


def _number(value: Any, key: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise Unusable(f"{key} must be a number from 0 to {most:g}, not {value!r}")
    return value


def _pickup(value: Any) -> float | None:
    return None if value is None else _number(value, "pickup_s", 3_600)


def _price(value: Any) -> float | None:
    return None if value is None else _number(value, "credit_price", 1_000_000)
