"""Tools: kinds of job. A handler's signature is the schema of its payload."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from itertools import chain
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from .core.outcomes import Refusal
from .core.payload import MAX_INTEGER
from .core.policy import MAX_AMOUNT, split
from .declarations import PRIORITY_BOUND, is_seconds, is_whole

Cost = int | Callable[..., int]


class Tool(Struct, frozen=True, kw_only=True):
    """A kind of job.

    cost: credits for one job: a number, or a function that takes the payload's fields by name (those it asks for).
    pool: whose slots and workers it uses. Defaults to "default".
    timeout: seconds in `starting` or `running` before a job is failed and refunded. Defaults to 600.
    max_wait: seconds in the queue before a job is cancelled and refunded. Defaults to no bound.
    attempts: runs before an error is final. Defaults to 1: the first error is.
    backoff, backoff_max: seconds before the first retry, doubling up to the second number. Default to 1 and 300.
    priority: added to the plan's priority; a positive number serves the tool later. Defaults to 0.
    items: the payload's field that says how many things are asked for: a number, or a list of them.
    max_items: larger requests are split at submit into jobs of at most this many, as one batch.
    dedupe: the same payload is computed once; later submits get the stored result, free.
    """

    name: str
    handler: Callable[..., Any]
    cost: Cost = 0
    pool: str = "default"
    timeout: float = 600.0
    max_wait: float | None = None
    attempts: int = 1
    backoff: float = 1.0
    backoff_max: float = 300.0
    priority: int = 0
    items: str | None = None
    max_items: int | None = None
    dedupe: bool = False
    payload_type: Any = None

    def check(self, longest_s: float) -> None:
        """Fails where the options cannot work, when the tool is declared and not when somebody pays for it."""
        fields = {field.name for field in msgspec.structs.fields(self.payload_type)}
        for problem in chain(self._unfit_numbers(longest_s), self._unfit_fields(fields)):
            raise ValueError(f"tool {self.name!r}: {problem}")

    def _unfit_numbers(self, longest_s: float) -> Iterator[str]:
        if not callable(self.cost) and isinstance(self.cost_of({}), Refusal):
            yield f"cost must be whole credits from 0 up, not {self.cost!r}"
        if not is_seconds(self.timeout) or self.timeout > longest_s:
            yield f"timeout must be a number of seconds from a millisecond up to max_age_s ({longest_s:g})"
        for option in ("max_wait", "backoff", "backoff_max"):
            value = getattr(self, option)
            if not is_seconds(value) and (option, value) != ("max_wait", None):
                yield f"{option} must be a number of seconds from a millisecond up, not {value!r}"
        if self.backoff > self.backoff_max:
            yield "backoff must not be longer than backoff_max"
        if not is_whole(self.attempts, 1, 1_000_000):
            yield f"attempts must be a whole number from 1 to 1000000, not {self.attempts!r}"
        if not is_whole(self.priority, -PRIORITY_BOUND, PRIORITY_BOUND):
            yield f"priority must be a whole number within ±{PRIORITY_BOUND}, not {self.priority!r}"
        if self.max_items is not None and not is_whole(self.max_items, 1, MAX_INTEGER):
            yield f"max_items must be a whole number from 1 up, not {self.max_items!r}"

    def _unfit_fields(self, fields: set[str]) -> Iterator[str]:
        if self.items is not None and self.items not in fields:
            yield f"its payload has no field {self.items!r}"
        if self.max_items is not None and self.items is None:
            yield "max_items needs items"
        if callable(self.cost) and self.payload_type.__struct_config__.forbid_unknown_fields:
            for name, parameter in inspect.signature(self.cost).parameters.items():
                is_filled = parameter.default is not parameter.empty or name in fields
                if not is_filled and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    yield f"its cost asks for {name!r}, which its payload does not have"
        try:
            msgspec.convert({}, self.payload_type)
        except msgspec.ValidationError:
            pass
        except TypeError as error:
            yield f"no payload can have these types: {error}"

    def schema(self) -> dict[str, Any]:
        """The payload's JSON Schema."""
        return msgspec.json.schema(self.payload_type)

    def problem(self, payload: dict[str, Any]) -> Refusal | None:
        """Why the payload does not fit the handler's signature, if so."""
        try:
            msgspec.convert(payload, self.payload_type)
        except msgspec.ValidationError as error:
            return Refusal("INVALID_PAYLOAD", f"the payload does not fit tool {self.name}: {error}.")
        return None

    def cost_of(self, payload: dict[str, Any]) -> int | Refusal:
        """What a payload costs. A cost function that answers nonsense is refused before anything is charged."""
        cost: Any = self.cost
        if callable(cost):
            asked = inspect.signature(cost).parameters
            fields = {**self._defaults(), **payload}
            cost = cost(**{name: fields[name] for name in asked if name in fields})
        if isinstance(cost, bool) or not isinstance(cost, int) or not 0 <= cost <= MAX_AMOUNT:
            return Refusal(
                "INVALID_PAYLOAD",
                f"the cost of tool {self.name} came out as {cost!r}; it must be a whole number from 0 to {MAX_AMOUNT}.",
            )
        return cost

    def units_of(self, payload: dict[str, Any]) -> int | Refusal:
        """How many things a payload asks for."""
        if self.items is None:
            return 1
        asked = {**self._defaults(), **payload}.get(self.items, 1)
        units = len(asked) if isinstance(asked, list | tuple) else asked
        if isinstance(units, bool) or not isinstance(units, int) or units < 1:
            return Refusal("INVALID_PAYLOAD", f"tool {self.name} needs {self.items} to be at least 1, not {asked!r}.")
        return units

    def _defaults(self) -> dict[str, Any]:
        """The fields that a payload may leave out, with what they then are."""
        return {
            field.name: field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            for field in msgspec.structs.fields(self.payload_type)
            if not field.required
        }

    def jobs_for(self, units: int) -> int:
        """How many jobs so many things are split into."""
        return 1 if self.max_items is None else -(-units // self.max_items)

    def parts(self, payload: dict[str, Any], units: int) -> list[tuple[dict[str, Any], int]]:
        """The payload as one job or, where the tool splits, as several: each with its count."""
        if self.items is None or self.max_items is None or units <= self.max_items:
            return [(payload, units)]
        asked = payload.get(self.items)
        parts: list[tuple[dict[str, Any], int]] = []
        start = 0
        for size in split(units, self.max_items):
            share = asked[start : start + size] if isinstance(asked, list | tuple) else size
            parts.append(({**payload, self.items: share}, size))
            start += size
        return parts


def payload_type(name: str, handler: Callable[..., Any]) -> Any:
    """The type of a handler's payload: its parameters after the job, by name.

    A handler that takes `**fields` accepts further fields; any other refuses them.
    """
    parameters = list(inspect.signature(handler).parameters.values())
    if not parameters:
        raise TypeError(f"the handler of tool {name!r} takes no argument; its first one must be the job")
    hints = get_type_hints(handler)
    fields: list[Any] = []
    is_open = False
    for parameter in parameters[1:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            is_open = True
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise TypeError(f"the handler of tool {name!r} takes {parameter}; a payload's fields are named")
        else:
            hint = hints.get(parameter.name, Any)
            is_required = parameter.default is parameter.empty
            fields.append(
                (parameter.name, hint) if is_required else (parameter.name, hint, _default(parameter.default))
            )
    return msgspec.defstruct(name, fields, forbid_unknown_fields=not is_open, kw_only=True)


def _default(value: Any) -> Any:
    """A mutable default is made anew for each payload, as msgspec demands."""
    if isinstance(value, list | dict | set):
        return msgspec.field(default_factory=partial(copy, value))
    return value
