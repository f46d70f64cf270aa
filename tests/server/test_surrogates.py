"""Lone surrogates, in every text of the OpenAPI document: what is not Unicode is refused and never fails the server."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ficha.server.problems import problem_response
from tests.server.isolation import OPERATIONS, Operation, Tenant
from tests.server.test_openapi import SERVER
from tests.support.server_process import Served

DOCUMENT = SERVER.openapi()
LONE = ["\ud800", "a\udfffb", "\ude00\ud83d"]
"""The half of a pair, at the beginning, within other text, and two in the wrong order."""


@pytest.fixture
def tenant(server: Served) -> Tenant:
    return Tenant(server)


def test_a_lone_surrogate_in_any_field_of_any_body_is_refused(server: Served, tenant: Tenant) -> None:
    tried = 0
    with server.client(server.admin) as admin:
        for operation in OPERATIONS:
            if operation.body is None:
                continue
            request = tenant.request(operation, named=True)
            for number, body in enumerate(_bodies(operation, request["json"])):
                answer = _post(admin, request["url"], body(LONE[number % len(LONE)]))
                assert answer.status_code == 422, (operation, body("…"), answer.text)
                assert answer.json()["code"] == "INVALID_ARGUMENT", (operation, answer.text)
                tried += 1
    assert tried > 100


def _post(client: httpx.Client, url: str, body: Any) -> httpx.Response:
    return client.post(url, content=json.dumps(body), headers={"Content-Type": "application/json"})


def _bodies(operation: Operation, example: dict[str, Any]) -> Iterator[Any]:
    """For each place of the body where a text can stand, what makes a body with a text there."""
    for path in _places({"$ref": f"#/components/schemas/{operation.body}"}):

        def made(text: str, path: tuple[Any, ...] = path) -> Any:
            return _put(copy.deepcopy(example), path, text)

        yield made


def _places(schema: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Where texts can stand: as a value, as a key of an object that may have any, as a field that nobody knows."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for choice in schema.get("anyOf", ()):
        yield from _places(choice)
    match schema.get("type"):
        case "string" | None if "anyOf" not in schema:
            yield ()
        case "array":
            yield from ((0, *path) for path in _places(schema["items"]))
        case "object":
            yield (None,)
            for name, field in schema.get("properties", {}).items():
                yield from ((name, *path) for path in _places(field))
            if "additionalProperties" in schema or not schema.get("properties"):
                yield from [("deeper", 0, "down"), ("deeper", None)]


def _put(value: Any, path: tuple[Any, ...], text: str) -> Any:
    """The value with the text at this place; what is on the way there is made. None on the way is the text as a key."""
    if not path:
        return text
    first, *rest = path
    if isinstance(first, int):
        items = value if isinstance(value, list) and value else [None]
        return [_put(items[0], tuple(rest), text), *items[1:]]
    members = value if isinstance(value, dict) else {}
    return {**members, text: 1} if first is None else {**members, first: _put(members.get(first), tuple(rest), text)}


def test_a_problem_can_quote_anything() -> None:
    assert json.loads(problem_response("INVALID_ARGUMENT", "é \ud800").body)["detail"] == "é \\ud800"


def test_a_surrogate_written_in_bytes_is_refused_in_a_url_and_fails_no_header(server: Served, tenant: Tenant) -> None:
    bytes_of_one = "%ED%A0%80"
    with server.client(server.admin) as admin:
        for operation in OPERATIONS:
            request = tenant.request(operation, named=False)
            path = operation.path
            while "{" in path:
                before, _, rest = path.partition("{")
                path = before + bytes_of_one + rest.partition("}")[2]
            headers = {**request.pop("headers", {}), "Idempotency-Key": b"\xed\xa0\x80", "Prefer": b"\xed\xa0\x80"}
            for address in (path, *(f"{request['url']}?{name}={bytes_of_one}" for name in operation.parameters)):
                answer = admin.request(**{**request, "url": address}, headers=headers)
                assert answer.status_code < 500, (operation, address, answer.text)
                assert answer.status_code == 422 or bytes_of_one not in address, (operation, address, answer.text)
