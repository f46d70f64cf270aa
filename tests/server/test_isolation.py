"""Tenant isolation, made up from the OpenAPI document: every operation, with every kind of caller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from uuid import uuid4

import httpx
import pytest

from ficha import Ficha
from tests.server.isolation import GUARDED, Operation, Tenant
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")


@pytest.fixture
def tenants(server: Served) -> tuple[Tenant, Tenant]:
    return Tenant(server), Tenant(server)


def _answers(
    server: Served, token: str | None, tenant: Tenant, *, named: bool = True
) -> Iterator[tuple[Operation, httpx.Response, str]]:
    """What every guarded operation says to this caller, asked about this tenant; with the request as text."""
    with server.client(token) as client:
        for operation in GUARDED:
            request = tenant.request(operation, named=named)
            yield operation, client.request(**request), json.dumps(request)


@pytest.mark.req("D10")
def test_nobody_gets_in_without_a_key_that_counts(server: Served, tenants: tuple[Tenant, Tenant]) -> None:
    tenant, _ = tenants
    before = tenant.state(server)

    for kind, token in _useless(server, tenant).items():
        for operation, answer, _ in _answers(server, token, tenant):
            assert answer.status_code == 401, (kind, operation, answer.text)
            assert answer.json()["code"] == "UNAUTHENTICATED"
    assert tenant.state(server) == before


def _useless(server: Served, tenant: Tenant) -> dict[str, str | None]:
    expired, revoked = asyncio.run(_spent_keys(server.database, tenant.account))
    return {"none": None, "expired": expired, "revoked": revoked}


async def _spent_keys(database: str, account: str) -> tuple[str, str]:
    async with Ficha(database, sweep_by_itself=False) as app:
        expired = await app.create_api_key(f"expired {account}", scope="admin", ttl_s=0.001)
        revoked = await app.create_api_key(f"revoked {account}", scope="admin")
        await app.revoke_api_key(revoked.key.id)
        return expired.secret, revoked.secret


@pytest.mark.req("D10")
def test_a_user_sees_and_changes_nothing_of_another(server: Served, tenants: tuple[Tenant, Tenant]) -> None:
    victim, other = tenants
    before = victim.state(server)

    for operation, answer, request in _answers(server, other.key, victim):
        if "user" not in operation.scopes:
            assert answer.status_code == 403, (operation, answer.text)
        elif "{" in operation.path or "account" in request:
            assert answer.status_code in (403, 404), (operation, answer.text)
        leaked = {found for found in victim.ids if found in answer.text and found not in request}
        assert not leaked, (operation, answer.text)
    for operation, answer, request in _answers(server, other.key, victim, named=False):
        assert not {found for found in victim.ids if found in answer.text and found not in request}, operation
    assert victim.state(server) == before


SPELLINGS = [str, str.upper, lambda found: found.replace("-", ""), "{{{}}}".format, "urn:uuid:{}".format]
SUBMIT = {"tool": "upscale", "payload": {"image": "x"}}


@pytest.mark.req("D10")
@pytest.mark.parametrize("spelled", SPELLINGS, ids=["plain", "upper case", "no hyphens", "braces", "urn"])
def test_what_is_foreign_and_what_does_not_exist_get_one_answer(
    server: Served, tenants: tuple[Tenant, Tenant], spelled: Callable[[str], str]
) -> None:
    victim, other = tenants
    foreign = {"job_id": victim.job, "batch_id": victim.batch, "reservation_id": victim.reservation}
    absent = {kind: str(uuid4()) for kind in foreign}

    def answers(token: str, ids: dict[str, str]) -> list[tuple[str, int, set[str], str]]:
        """What every route that takes an id says, with the id left out of the words."""
        asked = {kind: spelled(found) for kind, found in ids.items()}
        told = []
        with server.client(token) as client:
            for one in GUARDED:
                if "user" in one.scopes and any(f"{{{kind}}}" in one.path for kind in ids):
                    told.append((str(one), client.request(one.method, one.path.format(**asked), json={})))
            for field in ("batch", "reservation"):
                told.append((field, client.post("/api/jobs", json={**SUBMIT, field: asked[f"{field}_id"]})))
                told.append((field, client.post("/api/quote", json={**SUBMIT, field: asked[f"{field}_id"]})))
            told.append(("list", client.get("/api/jobs", params={"batch": asked["batch_id"]})))
        shown = []
        for route, answer in told:
            text = answer.text.replace(answer.headers["x-correlation-id"], "…")
            for found in (*asked.values(), *ids.values()):
                text = text.replace(found, "…")
            shown.append((route, answer.status_code, set(answer.headers), text))
        return shown

    found = answers(other.key, foreign)
    assert found == answers(other.key, absent)
    assert {status for route, status, _, _ in found if route.startswith("Operation")} == {404}
    assert answers(other.token, foreign) == answers(other.token, absent)


@pytest.mark.req("D10")
def test_a_token_of_one_job_is_good_for_nothing_else(server: Served, tenants: tuple[Tenant, Tenant]) -> None:
    victim, other = tenants
    before = victim.state(server)

    for operation, answer, _ in _answers(server, other.token, victim):
        expected = 404 if "job" in operation.scopes else 403
        assert answer.status_code == expected, (operation, answer.text)
    for operation, answer, _ in _answers(server, victim.token, victim):
        if "job" not in operation.scopes:
            assert answer.status_code == 403, (operation, answer.text)
        elif operation.method == "GET":
            assert answer.status_code == 200, (operation, answer.text)
    assert before[1:2] == victim.state(server)[1:2]


def test_each_kind_of_key_gets_as_far_as_the_document_says(server: Served, tenants: tuple[Tenant, Tenant]) -> None:
    tenant, _ = tenants

    for scope, token in {"user": tenant.key, "service": server.service, "viewer": server.viewer}.items():
        for operation, answer, _ in _answers(server, token, tenant, named=scope != "user"):
            if scope in operation.scopes:
                assert answer.status_code not in (401, 403), (scope, operation, answer.text)
            else:
                assert answer.status_code == 403, (scope, operation, answer.text)


@pytest.mark.req("D10")
def test_a_viewer_reads_what_an_admin_reads_and_every_change_is_refused(
    server: Served, tenants: tuple[Tenant, Tenant]
) -> None:
    tenant, _ = tenants
    before = tenant.state(server)
    with server.client(server.admin) as admin:
        lines = admin.get("/api/admin/audit", params={"limit": 1}).json()["items"]

        for operation, answer, request in _answers(server, server.viewer, tenant):
            if operation.method == "GET":
                asked = json.loads(request)
                assert answer.status_code == admin.request(**asked).status_code, (operation, answer.text)
                assert answer.status_code == 200 or "code" in answer.json(), (operation, answer.text)
            else:
                assert answer.status_code == 403, (operation, answer.text)
                assert answer.json()["detail"].endswith("yours is a viewer key.")

        assert admin.get("/api/admin/audit", params={"limit": 1}).json()["items"] == lines
    assert tenant.state(server) == before


def test_each_route_that_only_reads_is_for_viewers_and_no_other_is() -> None:
    for operation in GUARDED:
        assert ("viewer" in operation.scopes) == (operation.method == "GET"), operation


def test_an_admin_gets_everywhere(server: Served) -> None:
    tenant = Tenant(server)
    for operation, answer, _ in _answers(server, server.admin, tenant):
        assert answer.status_code not in (401, 403), (operation, answer.text)
        assert answer.status_code < 500, (operation, answer.text)
