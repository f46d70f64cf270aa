"""The OpenAPI document: what FastAPI knows of paths and parameters, with the shapes of bodies, answers and problems.

Bodies and answers are msgspec structs, so msgspec makes their schemas. What a route takes comes from its `body`
dependency, who may call it from its `Guard`, and what it answers from `gives`. The codes that it may refuse with follow
from the rules of the commands that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from inspect import cleandoc
from typing import Any, Final, TypeVar, get_args

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from ..core.codes import CODES, AnyCode
from ..core.commands import Command
from ..core.rules import RULES
from ..version import __version__
from .examples import EXAMPLES
from .guard import Guard
from .identity.callers import Scope
from .problems import MEDIA_TYPE, Problem

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
REF: Final = "#/components/schemas/{name}"
ALWAYS: Final[tuple[AnyCode, ...]] = ("INVALID_ARGUMENT", "INTERNAL", "HEADERS_TOO_LARGE")
GUARDED: Final[tuple[AnyCode, ...]] = ("UNAUTHENTICATED", "RATE_LIMITED", "OVERLOADED")
WITH_BYTES: Final[tuple[AnyCode, ...]] = ("OVERLOADED", "TIMEOUT", "TOO_LARGE")
"""Of a route that takes a body of any kind and needs no key."""
WITH_BODY: Final[tuple[AnyCode, ...]] = ("INVALID_JSON", "TIMEOUT", "TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE")
FILE_FORM: Final = {
    "type": "object",
    "properties": {"file": {"type": "string", "contentMediaType": "application/octet-stream"}},
    "required": ["file"],
}
ABOUT: Final = """Submit, watch, cancel and pay for jobs.

Errors are problems (RFC 9457) with a stable `code`; `retryable` says whether the same call may pass later. Send
`Authorization: Bearer` with an API key or a JWT. Lists are pages: pass `next` as `cursor` to get the following one."""


class Gives:
    """What a route answers with, by status, and the codes with which it refuses beside those that every route has."""

    def __init__(
        self, shapes: dict[int, Any], refuses: frozenset[AnyCode], media_types: tuple[str, ...], *, takes_bytes: bool
    ) -> None:
        self.shapes = shapes
        self.refuses = refuses
        self.media_types = media_types
        self.takes_bytes = takes_bytes


def gives(
    shape: Any,
    *refuses: AnyCode | type[Command],
    status: int = 200,
    also: int | None = None,
    media_types: tuple[str, ...] = ("application/json",),
    takes_bytes: bool = False,
) -> Callable[[Endpoint], Endpoint]:
    """Declares what a route's function answers with, and what may refuse it: commands, which stand for the codes of
    their rules, and the codes of checks before them."""
    codes = {code for one in refuses for code in ((one,) if isinstance(one, str) else RULES[one].refuses)}
    shapes = {status: shape} | ({} if also is None else {also: None if also == 204 else shape})

    def say(endpoint: Endpoint) -> Endpoint:
        endpoint.gives = Gives(shapes, frozenset(codes), media_types, takes_bytes=takes_bytes)  # type: ignore[attr-defined]
        return endpoint

    return say


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document. `openapi.json` in the repository is this, and a test compares them."""
    routes = [_documented(route) for route in app.routes if isinstance(route, APIRoute)]
    told = get_openapi(title="Ficha", version=__version__, description=ABOUT, routes=routes)
    shapes = _Shapes(routes)
    for route in routes:
        for method in sorted(route.methods or ()):
            operation = told["paths"].get(route.path_format, {}).get(method.lower())
            if operation is not None:
                _complete(operation, route, shapes)
    told["components"] = {
        "schemas": shapes.components,
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, a JWT or a job token."},
            "token": {"type": "apiKey", "in": "query", "name": "token", "description": "A job token, for browsers."},
        },
    }
    return told


def _documented(route: APIRoute) -> APIRoute:
    """The route without HEAD, which every GET has and which needs no words of its own."""
    told = copy(route)
    told.methods = (route.methods or set()) - {"HEAD"}
    return told


class _Shapes:
    """All shapes that routes take and give, as schemas."""

    def __init__(self, routes: list[APIRoute]) -> None:
        kinds = [Problem]
        for route in routes:
            kinds += [kind for kind in (*_given(route).shapes.values(), _taken(route)) if kind is not None]
        schemas, self.components = msgspec.json.schema_components(kinds, ref_template=REF)
        self._schemas = dict(zip(map(_key, kinds), schemas, strict=True))
        for schema in self.components.values():
            if "description" in schema:
                # A docstring's; up to Python 3.12 it still has the indentation of the code around it.
                schema["description"] = cleandoc(schema["description"])
        self.components["Problem"]["additionalProperties"] = True
        for kind, example in EXAMPLES.items():
            if kind.__name__ in self.components:
                self.components[kind.__name__]["examples"] = [example]

    def of(self, kind: Any) -> dict[str, Any]:
        return self._schemas[_key(kind)]


def _key(kind: Any) -> str:
    return repr(kind)


def _complete(operation: dict[str, Any], route: APIRoute, shapes: _Shapes) -> None:
    guard = guard_of(route)
    given = _given(route)
    operation["responses"] = {
        str(status): _response(status, given, shapes) for status, kind in given.shapes.items()
    } | _problems(codes_of_route(route))
    taken = _taken(route)
    if taken is not None:
        dependency = _body_of(route)
        content: dict[str, Any] = {"application/json": {"schema": shapes.of(taken)}}
        if getattr(dependency, "takes_file", False):
            content["multipart/form-data"] = {"schema": FILE_FORM}
        operation["requestBody"] = {"required": not getattr(dependency, "optional", False), "content": content}
    if guard is not None and guard.scopes:
        operation["security"] = [{"bearer": []}] + ([{"token": []}] if guard.in_query else [])
        operation["x-scopes"] = sorted(guard.scopes)
    else:
        operation["security"] = []


def _response(status: int, given: Gives, shapes: _Shapes) -> dict[str, Any]:
    if status == 204:
        return {"description": "There is nothing more to come"}
    if (kind := given.shapes[status]) is None:
        return {"description": "Done", "content": {name: {"schema": {"type": "string"}} for name in given.media_types}}
    words = {201: "Created", 200: "Done"}.get(status, "Done")
    return {"description": words, "content": {name: {"schema": shapes.of(kind)} for name in given.media_types}}


def codes_of_route(route: APIRoute) -> set[AnyCode]:
    """Every code that a route may answer with."""
    guard = guard_of(route)
    codes = {*ALWAYS, *_given(route).refuses}
    if guard is not None and guard.scopes:
        codes |= {*GUARDED}
        if guard.scopes != frozenset(get_args(Scope)):
            codes.add("FORBIDDEN")
    if takes_body(route):
        codes |= {*WITH_BODY}
    if _given(route).takes_bytes:
        codes |= {*WITH_BYTES}
    return codes


def takes_body(route: APIRoute) -> bool:
    return _taken(route) is not None


def _problems(codes: set[AnyCode]) -> dict[str, Any]:
    by_status: dict[int, list[AnyCode]] = {}
    for code in sorted(codes):
        by_status.setdefault(CODES[code].status, []).append(code)
    content = {MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}}
    return {
        str(status): {"description": ", ".join(names), "content": content}
        for status, names in sorted(by_status.items())
    }


def guard_of(route: APIRoute) -> Guard | None:
    """The guard of a route; None if the route has none, for which a test fails."""
    found = [one.call for one in route.dependant.dependencies if isinstance(one.call, Guard)]
    return found[0] if found else None


def _body_of(route: APIRoute) -> Any:
    found = [one.call for one in route.dependant.dependencies if hasattr(one.call, "kind")]
    return found[0] if found else None


def _taken(route: APIRoute) -> Any:
    return getattr(_body_of(route), "kind", None)


def _given(route: APIRoute) -> Gives:
    given: Gives = route.endpoint.gives  # type: ignore[attr-defined]
    return given
