"""The plans and pools that an application declares, checked when it does: what cannot work is refused at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from .core.payload import text_problem
from .core.policy import MAX_BALANCE, Plan
from .core.records import Pool

NAME_LENGTH: Final = 255
PRIORITY_BOUND: Final = 1_000
"""Plans, tools and boosts stay within ±1,000, so that their sum always fits the rank."""
SLOTS_MOST: Final = 1_000_000
LONGEST_S: Final = 100 * 365 * 86_400
"""A hundred years: the longest duration that is taken."""


def checked_plans(plans: Iterable[Plan]) -> Mapping[str, Plan]:
    known: dict[str, Plan] = {}
    for plan in plans:
        if not isinstance(plan, Plan):
            raise ValueError(f"{plan!r} is not a Plan; write Plan(name, …)")
        if plan.name in known:
            raise ValueError(f"the plan {plan.name!r} is declared twice")
        for problem in _problems(plan):
            raise ValueError(f"plan {plan.name!r}: {problem}")
        known[plan.name] = plan
    if not known:
        raise ValueError("declare at least one plan")
    return known


def checked_pools(pools: Iterable[Pool]) -> dict[str, Pool]:
    known: dict[str, Pool] = {}
    for pool in pools:
        if not isinstance(pool, Pool):
            raise ValueError(f"{pool!r} is not a Pool; write Pool(name, slots=…)")
        if (problem := name_problem(pool.name, "its name")) is not None:
            raise ValueError(f"pool {pool.name!r}: {problem}")
        if pool.name in known:
            raise ValueError(f"the pool {pool.name!r} is declared twice")
        if pool.slots is not None and not is_whole(pool.slots, 0, SLOTS_MOST):
            raise ValueError(
                f"pool {pool.name!r}: slots must be a whole number from 0 to {SLOTS_MOST} or None, not {pool.slots!r}"
            )
        known[pool.name] = pool
    return known


def _problems(plan: Plan) -> Iterable[str]:
    if (problem := name_problem(plan.name, "its name")) is not None:
        yield problem
    if not is_whole(plan.priority, -PRIORITY_BOUND, PRIORITY_BOUND):
        yield f"priority must be a whole number within ±{PRIORITY_BOUND}, not {plan.priority!r}"
    for field in ("max_running", "max_active", "per_hour"):
        value = getattr(plan, field)
        if value is not None and not is_whole(value, 1, MAX_BALANCE):
            yield f"{field} must be a whole number from 1 up or None, not {value!r}"
    for field in ("daily_limit", "daily_warning", "monthly_limit", "monthly_warning"):
        value = getattr(plan, field)
        if value is not None and not is_whole(value, 0, MAX_BALANCE):
            yield f"{field} must be whole credits from 0 up or None, not {value!r}"
    if plan.ageing_s is not None and not is_seconds(plan.ageing_s):
        yield f"ageing_s must be a number of seconds from a millisecond up or None, not {plan.ageing_s!r}"


def name_problem(value: Any, what: str) -> str | None:
    """Why this cannot be the name of anything, if so."""
    if not isinstance(value, str) or not 1 <= len(value) <= NAME_LENGTH:
        return f"{what} must be text of 1 to {NAME_LENGTH} characters"
    if (problem := text_problem(value, what)) is not None:
        return problem
    return None if value.isprintable() else f"{what} holds a control character"


def is_whole(value: Any, least: int, most: int) -> bool:
    """Whether this is a whole number in the range; a truth value is none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_seconds(value: Any) -> bool:
    """Whether this is a number of seconds from a millisecond to a hundred years."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.001 <= value <= LONGEST_S
