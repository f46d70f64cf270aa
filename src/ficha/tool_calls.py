"""A declared tool as an object: called like its function, and submitted with the payload's fields as arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, Unpack

from .engine.views import FileView, Quote, Receipt
from .json_values import usual_form
from .operations import AllOperations
from .requests import SubmitOptions
from .tools import Tool

J = TypeVar("J")
P = ParamSpec("P")
R = TypeVar("R")

OPTIONS: Final = frozenset({"account", "connection", *SubmitOptions.__annotations__})
"""The arguments of `submit` that are Ficha's; all others are fields of the payload."""


class DeclaredTool(Generic[J, P, R]):
    """What `app.tool` makes of a function.

        receipt = await upscale.submit(image="cat.png", scale=2, account="ana")

    The arguments that `app.submit` takes (`account`, `idempotency_key`, `run_at` and so on) are Ficha's, all others are
    fields of the payload. Their values may be of the handler's own types: models and dates are sent as JSON. A type
    checker sees the payload's fields in the longer form, in which a field may also have the name of an option:

        receipt = await upscale.options(account="ana", idempotency_key="k1").submit(image="cat.png", scale=2)

    Called itself, it is the plain function, for tests and for other handlers: `await upscale(job, image="cat.png")`.
    """

    def __init__(self, operations: AllOperations, tool: Tool, handler: Callable[Concatenate[J, P], R]) -> None:
        self._operations = operations
        self.tool = tool
        self.handler = handler
        update_wrapper(self, handler)

    def __call__(self, job: J, /, *args: P.args, **options: P.kwargs) -> R:
        return self.handler(job, *args, **options)

    def __repr__(self) -> str:
        return f"<tool {self.tool.name}>"

    @property
    def name(self) -> str:
        return self.tool.name

    async def submit(self, **given: Any) -> Receipt:
        """Creates and charges a job, as `app.submit` does: its arguments, and the fields of the payload."""
        return await self._submit_of(given)._send(given)

    async def quote(self, **given: Any) -> Quote:
        """What such a submit would lead to now."""
        return await self._submit_of(given)._quote(given)

    def options(self, *, account: str, connection: Any = None, **options: Unpack[SubmitOptions]) -> ToolSubmit[P]:
        """A submit with these options, which takes the payload's fields, and nothing else, as its arguments."""
        beside = {} if connection is None else {"connection": connection}
        return ToolSubmit(self._operations, self, {"account": account, **beside, **options})

    def _submit_of(self, given: dict[str, Any]) -> ToolSubmit[P]:
        """Takes the options out of the given arguments, which leaves the payload."""
        both = sorted(self.tool.payload.names & OPTIONS & given.keys())
        if both:
            raise TypeError(
                f"{both[0]!r} is a field of tool {self.name} and an option of a submit: write "
                f"{self.name}.options(account=…).submit({both[0]}=…)"
            )
        return ToolSubmit(self._operations, self, {name: given.pop(name) for name in OPTIONS & given.keys()})


class ToolSubmit(Generic[P]):
    """A submit of a tool whose options are set."""

    def __init__(self, operations: AllOperations, tool: DeclaredTool[Any, P, Any], options: dict[str, Any]) -> None:
        self._operations = operations
        self._tool = tool
        self._options = options

    async def submit(self, *args: P.args, **fields: P.kwargs) -> Receipt:
        """Creates and charges a job with these fields."""
        return await self._send(self._named(args, fields))

    async def quote(self, *args: P.args, **fields: P.kwargs) -> Quote:
        """What such a submit would lead to now."""
        return await self._quote(self._named(args, fields))

    async def _send(self, payload: dict[str, Any]) -> Receipt:
        return await self._operations.submit(self._tool.name, _plain(payload), **self._options)

    async def _quote(self, payload: dict[str, Any]) -> Quote:
        return await self._operations.quote(self._tool.name, _plain(payload), **self._options)

    def _named(self, args: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
        """The arguments as a payload: positional ones get the names of their parameters."""
        parameters = list(inspect.signature(self._tool.handler).parameters)[1:]
        if len(args) > len(parameters):
            raise TypeError(f"tool {self._tool.name} has {len(parameters)} fields, not {len(args)}")
        named = dict(zip(parameters, args, strict=False))
        for name in named.keys() & fields.keys():
            raise TypeError(f"tool {self._tool.name} got the field {name!r} twice")
        return named | fields


def _plain(payload: dict[str, Any]) -> Any:
    """The payload as JSON; an uploaded file is its id."""
    return usual_form({name: value.id if isinstance(value, FileView) else value for name, value in payload.items()})


def handler_of(found: Any) -> Any:
    """The function of a declared tool; anything else is returned as it is."""
    return found.handler if isinstance(found, DeclaredTool) else found
