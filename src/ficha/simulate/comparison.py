"""The results of scenarios, side by side: the figures of each, for tables, plots and programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ..core.policy import SECOND
from .replay import BUCKETS, Flow, PoolUse, Simulated
from .traffic import percentile

ALL = "all"


class WaitLine(Struct, frozen=True, gc=False):
    """The jobs of a plan and a tool (or `all`): how many were submitted, and how they ended; the seconds from submit to
    first start, for those that were started; credits charged and refunded."""

    plan: str
    tool: str
    submitted: int
    refused: int
    started: int
    completed: int
    failed: int
    cancelled: int
    abandoned: int
    unended: int
    wait_p50_s: float
    wait_p95_s: float
    wait_max_s: float
    charged: int
    refunded: int


class PoolLine(Struct, frozen=True, gc=False):
    """How much a pool was used: the share of its slots that were held, over the whole time (`utilisation`) and in the
    busiest of the `BUCKETS` (`busiest`), and how many were held on average and at most. limit: None for no limit; then
    there is no share."""

    pool: str
    limit: int | None
    average_held: float
    most_held: int
    utilisation: float | None
    busiest: float | None


class ScenarioFigures(Struct, frozen=True):
    """The figures of one scenario. revenue: what the credits that were kept are worth; None without `credit_price`.
    drained_s: how long after the last arrival the last job ended."""

    scenario: str
    jobs: int
    accounts: int
    days: float
    waits: list[WaitLine]
    pools: list[PoolLine]
    refusals: dict[str, int]
    charged: int
    refunded: int
    kept: int
    revenue: float | None
    drained_s: float


def figures_of_scenario(done: Simulated) -> ScenarioFigures:
    lines = _wait_lines(done)
    kept = sum(flow.charged - flow.refunded for flow in done.flows.values())
    refusals: Counter[str] = Counter()
    for flow in done.flows.values():
        refusals.update(flow.refused)
    price = done.scenario.credit_price
    return ScenarioFigures(
        done.scenario.name,
        sum(flow.submitted for flow in done.flows.values()),
        done.accounts,
        (done.ends_at - done.starts_at) / 86_400 / SECOND,
        lines,
        [_pool_line(done, name, use) for name, use in done.pools.items() if use.most],
        dict(sorted(refusals.items())),
        sum(flow.charged for flow in done.flows.values()),
        sum(flow.refunded for flow in done.flows.values()),
        kept,
        None if price is None else round(kept * price, 2),
        (done.drained_at - done.ends_at) / SECOND,
    )


def _wait_lines(done: Simulated) -> list[WaitLine]:
    """Returns a line for all tools of each plan, one for each tool if the plan has several, and one for all plans."""
    order = [*done.scenario.policy.plans]
    by_plan: dict[str, list[tuple[str, Flow]]] = {}
    for (plan, tool), flow in sorted(done.flows.items(), key=lambda item: (order.index(item[0][0]), item[0][1])):
        by_plan.setdefault(plan, []).append((tool, flow))
    lines = []
    for plan, flows in by_plan.items():
        lines.append(_wait_line(plan, ALL if len(flows) > 1 else flows[0][0], [flow for _, flow in flows]))
        if len(flows) > 1:
            lines += [_wait_line(plan, tool, [flow]) for tool, flow in flows]
    if len(by_plan) > 1:
        lines.append(_wait_line(ALL, ALL, done.flows.values()))
    return lines


def _wait_line(plan: str, tool: str, flows: Iterable[Flow]) -> WaitLine:
    flows = [*flows]
    waits = sorted(wait for flow in flows for wait in flow.waits)
    return WaitLine(
        plan,
        tool,
        sum(flow.submitted for flow in flows),
        sum(sum(flow.refused.values()) for flow in flows),
        len(waits),
        sum(flow.completed for flow in flows),
        sum(flow.failed for flow in flows),
        sum(flow.cancelled for flow in flows),
        sum(flow.abandoned for flow in flows),
        sum(flow.unended for flow in flows),
        percentile(waits, 0.5) / SECOND,
        percentile(waits, 0.95) / SECOND,
        (waits[-1] if waits else 0) / SECOND,
        sum(flow.charged for flow in flows),
        sum(flow.refunded for flow in flows),
    )


def _pool_line(done: Simulated, name: str, use: PoolUse) -> PoolLine:
    held = sum(use.busy_us) / (done.ends_at - done.starts_at)
    shares = busy_shares(done, name)
    return PoolLine(
        name,
        use.limit,
        round(held, 2),
        use.most,
        None if not use.limit else round(held / use.limit, 4),
        None if not use.limit else round(max(shares), 4),
    )


def busy_shares(done: Simulated, pool: str) -> list[float]:
    """Returns which share of the pool was held in each part of the time: of its slots or, without a limit, of the most
    that were held at once. Empty if the scenario has no such pool."""
    use = done.pools.get(pool)
    if use is None:
        return []
    of = use.limit or use.most or 1
    return [busy / done.bucket_us / of for busy in use.busy_us]


def waits_over_time(done: Simulated, plan: str, share: float = 0.95) -> list[float | None]:
    """Returns, for each part of the time, the wait in seconds that this share of the plan's jobs submitted in it did
    not exceed; None where there were none."""
    parts: list[list[int]] = [[] for _ in range(BUCKETS)]
    for (of_plan, _), flow in done.flows.items():
        if of_plan == plan:
            for begun, wait in zip(flow.waited_from, flow.waits, strict=True):
                parts[(begun - done.starts_at) // done.bucket_us].append(wait)
    return [percentile(sorted(part), share) / SECOND if part else None for part in parts]


def plans_of(simulated: Sequence[Simulated]) -> list[str]:
    """The plans that any of the scenarios has jobs of, in the order in which they are declared."""
    seen = {plan for done in simulated for plan, _ in done.flows}
    return [plan for plan in simulated[0].scenario.policy.plans if plan in seen]


def pools_of(simulated: Sequence[Simulated]) -> list[str]:
    """The pools in which any of the scenarios started jobs."""
    return list(dict.fromkeys(name for done in simulated for name, use in done.pools.items() if use.most))


def sparkline(values: Sequence[float | None], width: int = 56) -> str:
    """A row of bars for a terminal, each the largest of a few values."""
    step = max(1, -(-len(values) // width))
    tops = [max((v for v in values[n : n + step] if v is not None), default=0.0) for n in range(0, len(values), step)]
    most = max(tops, default=0.0)
    return "".join(" ▁▂▃▄▅▆▇█"[min(8, -(-int(top / most * 8_000) // 1_000))] if most else " " for top in tops)
