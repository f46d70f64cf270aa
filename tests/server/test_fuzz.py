"""Requests made up from the OpenAPI document: no answer is a server's error, and none is outside of the document."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import requests
from hypothesis import HealthCheck, given, settings

from tests.server.isolation import Tenant
from tests.server.test_openapi import DOCUMENT
from tests.support.postgres_databases import migrated_database
from tests.support.server_process import Served, served

if TYPE_CHECKING:
    from schemathesis import Case
    from schemathesis.schemas import BaseSchema

CASES = int(os.environ.get("CASES", "2"))
"""For each operation, of what fits the document and of what does not, on each database. `make fuzz` makes up more."""
PATHS = json.loads(DOCUMENT.read_text())["paths"]
TRIALS = [
    pytest.param(method.upper(), path, fits, id=f"{method.upper()} {path} {'as documented' if fits else 'otherwise'}")
    for path, methods in PATHS.items()
    for method, operation in methods.items()
    for fits in (True, False)
    # What takes nothing cannot be asked wrongly, and neither can what takes any text and any body from anybody.
    if fits
    or "requestBody" in operation
    or (operation["security"] and {"query", "path"} & {one["in"] for one in operation.get("parameters", ())})
]


@cache
def made_up_by() -> tuple[BaseSchema, list[Any]]:
    """What makes requests up, and its checks. Imported only where it is used: that takes seconds, and every process of
    a run collects every test."""
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    return schemathesis.openapi.from_dict(json.loads(DOCUMENT.read_text())), [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.negative_data_rejection,
        checks.unsupported_method,
        checks.ignored_auth,
    ]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def fuzzed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of their own: what is made up may change pools and accounts. It waits for nobody for long."""
    if request.param == "sqlite":
        with served(f"sqlite:///{tmp_path_factory.mktemp('fuzzed') / 'ficha.db'}", FICHA_WAIT_S="0.1") as server:
            yield server
    else:
        with (
            migrated_database(request.getfixturevalue("postgres_server")) as url,
            served(url, FICHA_WAIT_S="0.1") as server,
        ):
            yield server


@pytest.fixture(scope="module")
def tenant(fuzzed: Served) -> Tenant:
    return Tenant(fuzzed)


@pytest.mark.parametrize(("method", "path", "fits"), TRIALS)
def test_whatever_is_sent_is_answered_as_documented(
    fuzzed: Served, tenant: Tenant, method: str, path: str, fits: bool
) -> None:
    from schemathesis import GenerationMode

    schema, checks = made_up_by()
    operation = schema[path][method]
    mode = GenerationMode.POSITIVE if fits else GenerationMode.NEGATIVE
    chance = random.Random(operation.label)
    headers = {"Authorization": f"Bearer {fuzzed.admin}"}
    if path.endswith("/events"):
        headers["Accept"] = "application/json"
    with requests.Session() as session:
        session.trust_env = False

        @settings(max_examples=CASES, deadline=None, database=None, derandomize=True, suppress_health_check=HealthCheck)
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Case) -> None:
            if fits and chance.random() < 0.7:
                _point(case, tenant)
            case.call_and_validate(base_url=fuzzed.url, session=session, headers=headers, checks=checks, timeout=30)

        send()


def _point(case: Case, tenant: Tenant) -> None:
    """Lets a request name things that there are, or most would end at the door."""
    for name in case.path_parameters:
        # The key that all this is done with stays out of it.
        case.path_parameters[name] = tenant.thing(name)
    if isinstance(case.body, dict):
        for name, value in {"job_id": tenant.job, "account": tenant.account, "tool": "upscale"}.items():
            if name in case.body:
                case.body[name] = value
        if "payload" in case.body and "tool" in case.body:
            case.body["payload"] = {"image": "x"}
    if "account" in case.query:
        case.query["account"] = tenant.account
