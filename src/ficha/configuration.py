"""What an application declares, as texts whose changes the audit log tells: prices, plans, pools, limits and settings.

A price that a function computes cannot be compared by its value. The text of the function is, so that an edit shows;
what it calls or reads from elsewhere is not. Of a lambda, or of what has no source, only the kind is known.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict

from .core.policy import Keep, Plan, Policy, Retention
from .core.records import Pool
from .tools import Tool
from .validation import Limits

Subjects = dict[str, dict[str, str]]


def subjects(tools: Iterable[Tool], pools: Iterable[Pool], policy: Policy, limits: Limits) -> Subjects:
    """What is declared, by subject."""
    found: Subjects = {f"tool {tool.name}": {"price": _price(tool)} for tool in tools}
    found |= {f"plan {plan.name}": _plan(plan) for plan in policy.plans.values()}
    found |= {f"pool {pool.name}": {"slots": _text(pool.slots)} for pool in pools}
    settings = {name: value for name, value in asdict(policy).items() if isinstance(value, int | float)}
    found |= {"limits": _texts(asdict(limits)), "settings": _texts(settings)}
    kept = policy.retention
    found["retention"] = _kept(kept)
    found |= {f"retention of plan {name}": _kept(keep) for name, keep in kept.by_plan.items()}
    found |= {f"retention of tool {name}": _kept(keep) for name, keep in kept.by_tool.items()}
    return found


def _kept(terms: Retention | Keep) -> dict[str, str]:
    kept = {name: getattr(terms, name) for name in ("jobs", "payloads", "results")}
    return _texts({name: "as by default" if days is UNSET else days for name, days in kept.items()})


def _plan(plan: Plan) -> dict[str, str]:
    return _texts({name: value for name, value in asdict(plan).items() if name != "name"})


def _price(tool: Tool) -> str:
    price = _of_function(tool.cost) if callable(tool.cost) else str(tool.cost)
    return price if tool.items is None else f"{price} for each of {tool.items}"


def _of_function(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        return f"by {name}, whose code is not compared"
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return f"by {name}, whose code is not compared"
    return f"by {name} (code {sha256(source.encode()).hexdigest()[:12]})"


def _texts(fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in fields.items()}


def _text(value: Any) -> str:
    return "none" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)
