"""The plans that an application declares, checked when it does: a plan that cannot work is refused at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .core.policy import MAX_BALANCE, Plan

PRIORITY_BOUND = 1_000
"""Plans, tools and boosts stay within ±1,000, so that their sum always fits the rank."""


def checked_plans(plans: Iterable[Plan]) -> Mapping[str, Plan]:
    known: dict[str, Plan] = {}
    for plan in plans:
        if plan.name in known:
            raise ValueError(f"the plan {plan.name!r} is declared twice")
        for problem in _problems(plan):
            raise ValueError(f"plan {plan.name!r}: {problem}")
        known[plan.name] = plan
    if not known:
        raise ValueError("declare at least one plan")
    return known


def _problems(plan: Any) -> Iterable[str]:
    if not isinstance(plan.name, str) or not 1 <= len(plan.name) <= 255:
        yield "a name has 1 to 255 characters"
    if not isinstance(plan.priority, int) or abs(plan.priority) > PRIORITY_BOUND:
        yield f"priority must be a whole number within ±{PRIORITY_BOUND}, not {plan.priority!r}"
    for field in ("max_running", "max_active", "per_hour"):
        value = getattr(plan, field)
        if value is not None and (not isinstance(value, int) or value < 1):
            yield f"{field} must be a whole number from 1 up or None, not {value!r}"
    for field in ("daily_limit", "daily_warning", "monthly_limit", "monthly_warning"):
        value = getattr(plan, field)
        if value is not None and (not isinstance(value, int) or not 0 <= value <= MAX_BALANCE):
            yield f"{field} must be whole credits from 0 up or None, not {value!r}"
    if plan.ageing_s is not None and not plan.ageing_s >= 0.001:
        yield f"ageing_s must be at least a millisecond or None, not {plan.ageing_s!r}"
