"""Requests made up from the OpenAPI document: no answer is a server's error, and none is outside of the document."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.server.isolation import Tenant
from tests.server.test_openapi import DOCUMENT
from tests.support.postgres_databases import migrated_database
from tests.support.server_process import Served, served

CASES = int(os.environ.get("CASES", "3"))
"""For each operation, of what fits the document and of what does not, on each database. `make fuzz` makes up more."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    ignored_auth,
]
SCHEMA = schemathesis.openapi.from_dict(json.loads(DOCUMENT.read_text()))
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations()]
TRIALS = [
    pytest.param(operation, mode, id=f"{operation.label} {words}")
    for operation in OPERATIONS
    for mode, words in ((GenerationMode.POSITIVE, "as documented"), (GenerationMode.NEGATIVE, "otherwise"))
    # What takes nothing cannot be asked wrongly.
    if mode is GenerationMode.POSITIVE or operation.body or operation.query or operation.path_parameters
]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
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


@pytest.mark.parametrize(("operation", "mode"), TRIALS)
def test_whatever_is_sent_is_answered_as_documented(
    fuzzed: Served, tenant: Tenant, operation: APIOperation[Any, Any, Any], mode: GenerationMode
) -> None:
    chance = random.Random(operation.label)
    headers = {"Authorization": f"Bearer {fuzzed.admin}"}
    if operation.path.endswith("/events"):
        headers["Accept"] = "application/json"
    with requests.Session() as session:
        session.trust_env = False

        @settings(max_examples=CASES, deadline=None, database=None, derandomize=True, suppress_health_check=HealthCheck)
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: schemathesis.Case) -> None:
            if mode is GenerationMode.POSITIVE and chance.random() < 0.7:
                _point(case, tenant)
            case.call_and_validate(base_url=fuzzed.url, session=session, headers=headers, checks=CHECKS, timeout=30)

        send()


def _point(case: schemathesis.Case, tenant: Tenant) -> None:
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
