"""The OpenAPI document: checked in, complete, and true to the routes."""

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from fastapi.routing import APIRoute

from ficha.core.codes import CODES
from ficha.core.commands import Submit
from ficha.core.rules import RULES
from ficha.server import Settings, asgi
from ficha.server.examples import EXAMPLES
from ficha.server.guard import Guard, OwnPages
from ficha.server.identity import Scope
from ficha.server.openapi import GUARDED, codes_of_route, guard_of
from tests.server.shop import app
from tests.support.refusal_codes import codes_of
from tests.support.server_process import SECRET

DOCUMENT = Path(__file__).parents[2] / "openapi.json"
SERVER = asgi(app, Settings(secret=SECRET))
ONLY_IN_A_CURSOR = {
    "/api/reservations": "reservations",
    "/api/system/stuck": "stuck",
    "/api/admin/dead": "dead",
    "/api/admin/jobs": "jobs",
    "/api/batches": "batches",
    "/api/admin/reservations": "reservations",
    "/api/admin/api-keys": "api_keys",
    "/api/admin/bulk-acts": "bulk_acts",
}
"""Lists that take no id but that in their cursor, which is signed: there is always something by it."""
ROUTES = [route for route in SERVER.routes if isinstance(route, APIRoute)]


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in SERVER.openapi()["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_document_in_the_repository_is_that_of_the_server() -> None:
    """After a change of routes or shapes: make openapi."""
    assert json.loads(DOCUMENT.read_text()) == json.loads(json.dumps(SERVER.openapi()))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{min(route.methods)} {route.path}")
def test_every_route_says_who_may_call_it(route: APIRoute) -> None:
    assert isinstance(guard_of(route), Guard)


def test_only_probes_the_document_sign_ins_and_call_backs_are_open() -> None:
    open_paths = {route.path for route in ROUTES if (guard := guard_of(route)) is not None and not guard.scopes}

    assert open_paths == {
        *("/healthz", "/readyz", "/api/openapi.json", "/api/webhooks/{provider}/{token}"),
        *("/api/sign-in", "/api/sign-out"),
    }


def test_every_route_is_in_the_document() -> None:
    documented = {(method.upper(), path) for method, path, _ in operations()}

    assert documented == {(method, route.path_format) for route in ROUTES for method in route.methods - {"HEAD"}}


@pytest.mark.parametrize(("method", "path", "operation"), operations(), ids=lambda value: str(value)[:40])
def test_every_operation_has_words_an_answer_and_its_problems(method: str, path: str, operation: dict) -> None:
    assert operation["summary"]
    assert [status for status in operation["responses"] if status.startswith("2")]
    for status, response in operation["responses"].items():
        if int(status) >= 400 and path != "/readyz":
            codes = response["description"].split(", ")
            assert all(CODES[code].status == int(status) for code in codes)
            assert response["content"]["application/problem+json"]["schema"] == {"$ref": "#/components/schemas/Problem"}
    if operation["security"]:
        assert "401" in operation["responses"]
        assert ("403" in operation["responses"]) is (set(operation["x-scopes"]) < {*get_args(Scope)})
    if "requestBody" in operation:
        assert {"400", "413", "415", "422"} <= operation["responses"].keys()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{min(route.methods)} {route.path}")
def test_a_route_tells_exactly_the_codes_that_it_can_refuse_with(route: APIRoute) -> None:
    can = codes_of(route.endpoint.__module__.removeprefix("ficha."), route.endpoint.__name__)
    if route.path == "/api/quote":
        # What would refuse the submit is told in the quote; only an account that is not there refuses the quote too,
        # and a payload that does not fit its tool.
        can -= set(RULES[Submit].refuses) - {"INVALID_PAYLOAD", "NOT_FOUND"}
    if isinstance(guard_of(route), OwnPages):
        # Its guard refuses pages of other origins; and a sign-in authenticates, as other guards do.
        can |= {"FORBIDDEN", *(GUARDED if route.path == "/api/sign-in" else ())}
    if "GET" in route.methods and ONLY_IN_A_CURSOR.get(route.path) == route.endpoint.__name__:
        can -= {"NOT_FOUND"}

    assert can <= codes_of_route(route)
    assert route.endpoint.gives.refuses <= can


def test_every_reference_leads_somewhere() -> None:
    document = SERVER.openapi()
    text = json.dumps(document)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}

    assert names <= document["components"]["schemas"].keys()


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_every_example_is_what_its_route_takes(kind: type) -> None:
    assert msgspec.convert(EXAMPLES[kind], kind)


def test_every_body_has_an_example() -> None:
    taken = {
        operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for _, _, operation in operations()
        if "requestBody" in operation
    }

    assert taken == {kind.__name__ for kind in EXAMPLES}
