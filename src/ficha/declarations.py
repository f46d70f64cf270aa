"""Checks the plans, pools and tools that an application declares, so that errors show at once, not at a submit."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter
from itertools import chain
from typing import Any, Final, get_args, get_origin

from msgspec import UNSET

from .core.checkpoints import Checkpoints
from .core.outcomes import Refusal
from .core.payload import MAX_INTEGER, text_problem
from .core.policy import MAX_BALANCE, MAX_PROVIDER_COST, Keep, Plan, Retention, Webhooks, millionths
from .core.records import Pool
from .core.visibility import Audience
from .json_values import members, plain_function, return_annotation, stored_type
from .tools import Isolation, Tool

NAME_LENGTH: Final = 255
PRIORITY_BOUND: Final = 1_000
"""Priorities of plans and tools, and boosts, are within ±1,000, so that their sum always fits the rank."""
MAX_SLOTS: Final = 1_000_000
LONGEST_S: Final = 100 * 365 * 86_400
"""A hundred years: the longest duration accepted."""
MAX_JOBS_PER_CALL: Final = 1_000
MAX_CALLS: Final = 1_000
LINGER_MS_MOST: Final = 60_000
LINGER_MS: Final = 20
MAX_CHECKPOINTS: Final = 1_000
MAX_ENDPOINTS: Final = 1_000
LEAST_DAYS: Final = 1 / 24
MOST_DAYS: Final = 36_500
"""The shortest age of `Retention` is an hour; the longest, besides for ever, a hundred years."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?|\*")

CheckpointOrder = Sequence[str] | Mapping[str, Iterable[str]]
"""Checkpoints in order, or for each of them those that may follow it."""


def checked_plans(plans: Iterable[Plan]) -> Mapping[str, Plan]:
    known: dict[str, Plan] = {}
    for plan in plans:
        if not isinstance(plan, Plan):
            raise ValueError(f"{plan!r} is not a Plan; write Plan(name, …)")
        if plan.name in known:
            raise ValueError(f"the plan {plan.name!r} is declared twice")
        for problem in _plan_problems(plan):
            raise ValueError(f"plan {plan.name!r}: {problem}")
        known[plan.name] = plan
    if not known:
        raise ValueError("declare at least one plan")
    return known


def checked_retention(retention: Retention | None, plans: Mapping[str, Plan]) -> Retention:
    """The checked retention; without one, everything is kept for ever."""
    if retention is None:
        return Retention()
    if not isinstance(retention, Retention):
        raise ValueError(f"retention must be Retention(…) or None, not {retention!r}")
    named = {
        **{f"by_plan[{name!r}]": keep for name, keep in retention.by_plan.items()},
        **{f"by_tool[{name!r}]": keep for name, keep in retention.by_tool.items()},
    }
    for where, keep in named.items():
        if not isinstance(keep, Keep):
            raise ValueError(f"retention: {where} must be Keep(…), not {keep!r}")
    for name in retention.by_plan:
        if name not in plans:
            raise ValueError(f"retention: by_plan names the plan {name!r}, which is not declared")
    for where, terms in {"": retention, **named}.items():
        for kind in ("jobs", "payloads", "results"):
            days = getattr(terms, kind)
            if days not in (None, UNSET) and not (is_seconds(days) and LEAST_DAYS <= days <= MOST_DAYS):
                what = f"{where}.{kind}" if where else kind
                bounds = f"from {LEAST_DAYS:g} to {MOST_DAYS}"
                raise ValueError(f"retention: {what} must be a number of days {bounds} or None, not {days!r}")
    return retention


def checked_pools(pools: Iterable[Pool]) -> dict[str, Pool]:
    known: dict[str, Pool] = {}
    for pool in pools:
        if not isinstance(pool, Pool):
            raise ValueError(f"{pool!r} is not a Pool; write Pool(name, slots=…)")
        if (problem := name_problem(pool.name, "its name")) is not None:
            raise ValueError(f"pool {pool.name!r}: {problem}")
        if pool.name in known:
            raise ValueError(f"the pool {pool.name!r} is declared twice")
        if pool.slots is not None and not is_whole(pool.slots, 0, MAX_SLOTS):
            raise ValueError(
                f"pool {pool.name!r}: slots must be a whole number from 0 to {MAX_SLOTS} or None, not {pool.slots!r}"
            )
        known[pool.name] = pool
    return known


def checked_webhooks(webhooks: bool | Webhooks) -> Webhooks | None:
    """The terms of webhooks; None if they are off."""
    if isinstance(webhooks, bool):
        return Webhooks() if webhooks else None
    if not isinstance(webhooks, Webhooks):
        raise ValueError(f"webhooks must be True, False or Webhooks(…), not {webhooks!r}")
    if webhooks.low_credits is not None and not is_whole(webhooks.low_credits, 1, MAX_BALANCE):
        raise ValueError(f"webhooks: low_credits must be whole credits from 1 up or None, not {webhooks.low_credits!r}")
    if not is_whole(webhooks.max_endpoints, 0, MAX_ENDPOINTS):
        words = f"max_endpoints must be a whole number from 0 to {MAX_ENDPOINTS}"
        raise ValueError(f"webhooks: {words}, not {webhooks.max_endpoints!r}")
    if not is_whole(webhooks.result_bytes, 0, MAX_BALANCE):
        raise ValueError(f"webhooks: result_bytes must be a whole number from 0 up, not {webhooks.result_bytes!r}")
    if not is_whole(webhooks.resends_per_hour, 1, MAX_BALANCE):
        words = "resends_per_hour must be a whole number from 1 up"
        raise ValueError(f"webhooks: {words}, not {webhooks.resends_per_hour!r}")
    for field in ("timeout_s", "overlap_s", "disable_after_s", "kept_s"):
        if not is_seconds(value := getattr(webhooks, field)):
            raise ValueError(f"webhooks: {field} must be a number of seconds from a millisecond up, not {value!r}")
    return webhooks


def _plan_problems(plan: Plan) -> Iterable[str]:
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
    for field in ("file_bytes", "max_files", "storage_bytes"):
        value = getattr(plan, field)
        if value is not None and not is_whole(value, 0, MAX_BALANCE):
            yield f"{field} must be a whole number from 0 up or None, not {value!r}"
    if plan.ageing_s is not None and not is_seconds(plan.ageing_s):
        yield f"ageing_s must be a number of seconds from a millisecond up or None, not {plan.ageing_s!r}"


def declared_tool(
    name: str,
    handler: Callable[..., Any],
    *,
    longest_s: float,
    endings: tuple[type, ...],
    known_plans: Mapping[str, Plan],
    checkpoints: CheckpointOrder | None = None,
    fatal: Any = (),
    devices: Any = (),
    environment: Any = (),
    plans: Any = None,
    **options: Any,
) -> Tool:
    """The tool of a handler and its options.

    longest_s: the longest that any job may run. endings: what a handler may return instead of a result.
    """
    # Imported here, because pydantic takes longer to import than all else, and a client declares no tool.
    from .payload_schema import payload_of

    payload = payload_of(name, handler, takes_several=options.get("jobs_per_call") is not None)
    try:
        tool = Tool(
            name=name,
            handler=handler,
            payload=payload,
            checkpoints=None if checkpoints is None else declared_checkpoints(checkpoints),
            fatal=fatal if isinstance(fatal, tuple) else (fatal,),
            devices=declared_devices(devices),
            environment=_declared_variables(environment),
            setup_takes_device=bool(devices) and _can_be_called(options.get("setup"), "device"),
            asked=_fields_asked(options.get("cost", 0)),
            provider_asked=_fields_asked(options.get("provider_cost"), "provider_cost"),
            plans=None if plans is None else _declared_plans(plans, known_plans),
            **options,
        )
        for problem in chain(
            _number_problems(tool, longest_s),
            _field_problems(tool),
            _running_problems(tool),
            _result_problems(tool, endings),
        ):
            raise ValueError(problem)
    except ValueError as error:
        raise ValueError(f"tool {name!r}: {error}") from error
    return tool


def checked_numbers(tool: Tool, longest_s: float) -> Tool:
    """Returns the tool; raises ValueError if one of its numbers may not be declared."""
    for problem in _number_problems(tool, longest_s):
        raise ValueError(problem)
    return tool


def _declared_plans(plans: Any, known: Mapping[str, Plan]) -> tuple[str, ...]:
    if isinstance(plans, str) or not isinstance(plans, Iterable) or not (named := tuple(plans)):
        raise ValueError(f"plans must be a list of names of plans, not {plans!r}")
    for plan in named:
        if plan not in known:
            raise ValueError(f"there is no plan {plan!r}; declared are: {', '.join(known)}")
    return named


def _number_problems(tool: Tool, longest_s: float) -> Iterator[str]:
    if not callable(tool.cost) and isinstance(tool.cost_of({}), Refusal):
        yield f"cost must be whole credits from 0 up, not {tool.cost!r}"
    price = tool.provider_cost
    if price is not None and not callable(price) and millionths(price) is None:
        yield f"provider_cost must be a number from 0 to {MAX_PROVIDER_COST} in your currency, not {price!r}"
    if not is_seconds(tool.timeout) or tool.timeout > longest_s:
        yield f"timeout must be a number of seconds from a millisecond up to max_age_s ({longest_s:g})"
    for option in ("max_wait", "backoff", "backoff_max"):
        value = getattr(tool, option)
        if not is_seconds(value) and (option, value) != ("max_wait", None):
            yield f"{option} must be a number of seconds from a millisecond up, not {value!r}"
    if tool.backoff > tool.backoff_max:
        yield "backoff must not be longer than backoff_max"
    if not is_whole(tool.attempts, 1, 1_000_000):
        yield f"attempts must be a whole number from 1 to 1000000, not {tool.attempts!r}"
    if tool.max_recoveries is not None and not is_whole(tool.max_recoveries, 0, 1_000_000):
        yield f"max_recoveries must be a whole number from 0 to 1000000 or None, not {tool.max_recoveries!r}"
    if not is_whole(tool.priority, -PRIORITY_BOUND, PRIORITY_BOUND):
        yield f"priority must be a whole number within ±{PRIORITY_BOUND}, not {tool.priority!r}"
    if tool.max_items is not None and not is_whole(tool.max_items, 1, MAX_INTEGER):
        yield f"max_items must be a whole number from 1 up, not {tool.max_items!r}"
    if not is_seconds(tool.stop_grace) and (tool.stop_grace != 0 or isinstance(tool.stop_grace, bool)):
        yield f"stop_grace must be a number of seconds, 0 or from a millisecond up, not {tool.stop_grace!r}"


def _field_problems(tool: Tool) -> Iterator[str]:
    if tool.audience not in get_args(Audience):
        yield f"audience must be one of {', '.join(get_args(Audience))}, not {tool.audience!r}"
    if not isinstance(tool.dedupe, bool) and tool.dedupe != "global":
        yield f'dedupe must be True, False or "global", not {tool.dedupe!r}'
    if tool.max_items is not None and tool.items is None:
        yield "max_items needs items"
    if tool.items is not None:
        schema = tool.schema()
        field = schema.get("properties", {}).get(tool.items)
        if field is None:
            yield f"its payload has no field {tool.items!r}"
        elif not _counts(field):
            yield f"its field {tool.items!r} is neither a whole number nor a list, which items must name"
    for option, cost, asked in (
        ("cost", tool.cost, tool.asked),
        ("provider_cost", tool.provider_cost, tool.provider_asked),
    ):
        for name in sorted((asked or frozenset()) - tool.payload.names):
            # A field may be missing if the function has a default for it, or if the payload may have any field.
            if not tool.payload.is_open and inspect.signature(cost).parameters[name].default is Parameter.empty:  # type: ignore[arg-type]
                yield f"its {option} function has a parameter {name!r}, which its payload does not have"


def _counts(schema: Mapping[str, Any]) -> bool:
    """Whether a field may be a whole number or a list, according to its schema."""
    choices = schema.get("anyOf") or schema.get("oneOf")
    return any(map(_counts, choices)) if choices else schema.get("type", "array") in ("integer", "array")


def _fields_asked(cost: Any, option: str = "cost") -> frozenset[str] | None:
    """The payload's fields that a cost function takes as parameters; None if it takes all."""
    if not callable(cost):
        return frozenset()
    if inspect.iscoroutinefunction(cost):
        raise ValueError(
            f"its {option} is a coroutine function; the number is needed at once, so write a plain function"
        )
    parameters = inspect.signature(cost).parameters.values()
    for parameter in parameters:
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY):
            raise ValueError(f"its {option} takes {parameter}; it gets the payload's fields by name")
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def _running_problems(tool: Tool) -> Iterator[str]:
    if tool.isolation not in get_args(Isolation):
        yield f"isolation must be 'auto' or 'process', not {tool.isolation!r}"
    is_process = tool.isolation == "process"
    if is_process and (problem := _import_problem(tool.handler)) is not None:
        yield f"isolation='process' needs a handler that a new process can import: {problem}"
    for option in ("memory_mb", "recycle_after"):
        value = getattr(tool, option)
        if value is not None and not is_whole(value, 1, MAX_INTEGER):
            yield f"{option} must be a whole number from 1 up or None, not {value!r}"
        if value is not None and not is_process:
            yield f"{option} needs isolation='process'"
    if tool.environment and not is_process:
        yield "environment needs isolation='process'"
    if not is_whole(tool.linger_ms, 0, LINGER_MS_MOST):
        yield f"linger_ms must be a whole number from 0 to {LINGER_MS_MOST}, not {tool.linger_ms!r}"
    if tool.jobs_per_call is None and tool.linger_ms != LINGER_MS:
        yield "linger_ms needs jobs_per_call"
    if tool.jobs_per_call is not None and not is_whole(tool.jobs_per_call, 1, MAX_JOBS_PER_CALL):
        yield f"jobs_per_call must be a whole number from 1 to {MAX_JOBS_PER_CALL} or None, not {tool.jobs_per_call!r}"
    if tool.jobs_per_call is not None and is_process:
        yield "jobs_per_call does not go with isolation='process'"
    if tool.max_calls is not None and not is_whole(tool.max_calls, 1, MAX_CALLS):
        yield f"max_calls must be a whole number from 1 to {MAX_CALLS} or None, not {tool.max_calls!r}"
    if tool.setup is not None and (problem := _setup_problem(tool)) is not None:
        yield problem
    if tool.devices and tool.is_async and not is_process:
        yield "devices needs a plain function as the handler, or isolation='process': coroutines share one thread"
    kind: Any
    for kind in tool.fatal:
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            yield f"fatal must be an exception class or a tuple of them (subclasses of Exception), not {kind!r}"


def _setup_problem(tool: Tool) -> str | None:
    setup = tool.setup
    if not callable(setup):
        return f"setup must be a function, not {setup!r}"
    if inspect.iscoroutinefunction(setup) and not tool.is_async:
        return "setup is a coroutine function, but the handler is a plain one, which is set up in its thread"
    if not tool.setup_takes_device and not _can_be_called(setup):
        given = "without arguments, or with a device where the tool has devices"
        return f"setup is called {given}, but it takes {inspect.signature(setup)}"
    if tool.isolation == "process" and (problem := _import_problem(setup)) is not None:
        return f"isolation='process' needs a setup that a new process can import: {problem}"
    return None


def _can_be_called(function: Any, *args: Any) -> bool:
    try:
        inspect.signature(function).bind(*args)
    except TypeError:
        return False
    except ValueError:
        return not args  # Some built-in functions have no signature.
    return True


def declared_devices(devices: Any) -> tuple[str, ...]:
    if isinstance(devices, str | bytes) or not isinstance(devices, Sequence):
        raise ValueError(f"devices must be a list of names such as 'cuda:0', not {devices!r}")
    for device in devices:
        if (problem := name_problem(device, f"the device {device!r}")) is not None:
            raise ValueError(problem)
    if len(set(devices)) < len(devices):
        raise ValueError("devices names a device twice; max_calls says how many calls share the devices")
    return tuple(devices)


def _declared_variables(names: Any) -> tuple[str, ...]:
    if isinstance(names, str | bytes) or not isinstance(names, Sequence):
        raise ValueError(f"environment must be a list of names such as 'MODEL_CACHE', not {names!r}")
    for name in names:
        if not isinstance(name, str) or _VARIABLE.fullmatch(name) is None:
            raise ValueError(f"environment names variables, such as 'MODEL_CACHE' or 'AWS_*', not {name!r}")
    return tuple(names)


def _result_problems(tool: Tool, endings: tuple[type, ...]) -> Iterator[str]:
    """Why no result of the handler could be stored, according to its annotation."""
    function = plain_function(tool.handler)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        yield "its handler is a generator: return the result instead of yielding it; job.partial shows parts early"
    returned = return_annotation(tool.handler)
    endings = (*endings, type(None))
    if tool.jobs_per_call is not None:
        # A list with a result or an exception for each job.
        endings = (*endings, BaseException)
        items = get_args(returned) if get_origin(returned) in (list, tuple, Sequence) else ()
        returned = items[0] if items else Any
    results = [kind for kind in members(returned) if not (isinstance(kind, type) and issubclass(kind, endings))]
    problems = [(kind, stored_type(kind).problem) for kind in results]
    if problems and all(problem for _, problem in problems):
        # If any kind of result can be stored, only the value decides.
        kind, problem = problems[0]
        yield f"its handler returns {getattr(kind, '__name__', kind)}, which cannot be stored: {problem}"


def _import_problem(handler: Any) -> str | None:
    """Why a new process could not import the handler by its module and name; None if it could.

    The name cannot be looked up yet: a decorated function is bound to its name only after this.
    """
    if not inspect.isfunction(handler):
        return f"{handler!r} is not a named function"
    name = handler.__qualname__
    if handler.__module__ == "__main__" and not _is_main_a_file():
        return f"{name} is in a notebook or an interactive session; write it in a module (a .py file) and import that"
    if "<lambda>" in name:
        return "a lambda has no name; write a function at the top of a module"
    return f"{name} is local to a function; move it to the top of its module" if "<locals>" in name else None


def _is_main_a_file() -> bool:
    """Whether a new process can run what this one runs as `__main__`: a script or a module, no notebook or prompt."""
    main = sys.modules["__main__"]
    return getattr(main, "__spec__", None) is not None or os.path.exists(getattr(main, "__file__", None) or "")


def declared_checkpoints(order: CheckpointOrder) -> Checkpoints:
    """The order of a tool's checkpoints, from a list or a mapping."""
    if isinstance(order, Mapping):
        follow = {name: _names(after, f"what may follow {name!r}") for name, after in order.items()}
    else:
        line = _names(order, "checkpoints")
        follow = {name: line[at : at + 1] for at, name in enumerate(line, 1)}
    if not 1 <= len(follow) <= MAX_CHECKPOINTS:
        raise ValueError(f"checkpoints must have 1 to {MAX_CHECKPOINTS} names; leave the option out to allow any")
    followers = {name for after in follow.values() for name in after}
    for name in (*follow, *followers):
        if (problem := name_problem(name, f"the checkpoint {name!r}")) is not None:
            raise ValueError(problem)
        if name not in follow:
            raise ValueError(f"the checkpoint {name!r} follows another but is not declared; add {name!r}: []")
    # If every checkpoint follows another, as in a cycle, a job begins with the first that is named.
    first = tuple(name for name in follow if name not in followers) or tuple(follow)[:1]
    declared = Checkpoints(follow, first)
    for name in follow:
        if name not in first and not any(declared.lies_before(begin, name) for begin in first):
            raise ValueError(f"the checkpoint {name!r} can never be reached from {', '.join(map(repr, first))}")
    return declared


def _names(value: Any, what: str) -> tuple[Any, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset):
        raise ValueError(f"{what} must be a list of names, not {value!r}")
    names = tuple(sorted(value) if isinstance(value, set | frozenset) else value)
    if len(set(names)) < len(names):
        raise ValueError(f"{what} names a checkpoint twice")
    return names


def name_problem(value: Any, what: str) -> str | None:
    """Why this is not a valid name; None if it is."""
    if not isinstance(value, str) or not 1 <= len(value) <= NAME_LENGTH:
        return f"{what} must be text of 1 to {NAME_LENGTH} characters"
    if (problem := text_problem(value, what)) is not None:
        return problem
    return None if value.isprintable() else f"{what} contains a control character"


def is_whole(value: Any, least: int, most: int) -> bool:
    """Whether this is a whole number in the range; a boolean is not."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_seconds(value: Any) -> bool:
    """Whether this is a number of seconds from a millisecond to a hundred years."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.001 <= value <= LONGEST_S
