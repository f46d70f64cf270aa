"""NUL characters, in every text of the OpenAPI document: no answer differs by the database, and none is a 5xx."""

from __future__ import annotations

import pytest

from tests.server.isolation import OPERATIONS, Tenant
from tests.server.test_surrogates import _bodies, _post
from tests.support.server_process import Served

NULS = ["\x00", "a\x00b"]


@pytest.fixture
def tenant(server: Served) -> Tenant:
    return Tenant(server)


def test_a_nul_in_any_field_of_any_body_fails_no_call(server: Served, tenant: Tenant) -> None:
    tried = 0
    with server.client(server.admin) as admin:
        for operation in OPERATIONS:
            if operation.body is None:
                continue
            request = tenant.request(operation, named=True)
            for number, body in enumerate(_bodies(operation, request["json"])):
                answer = _post(admin, request["url"], body(NULS[number % len(NULS)]))
                assert answer.status_code < 500, (operation, body("…"), answer.text)
                tried += 1
            if operation.path.endswith("/close"):
                # Other tests submit to the same pool.
                admin.post(f"{request['url'].removesuffix('close')}open").raise_for_status()
    assert tried > 100


def test_a_nul_in_any_address_or_header_fails_no_call(server: Served, tenant: Tenant) -> None:
    with server.client(server.admin) as admin:
        for operation in OPERATIONS:
            request = tenant.request(operation, named=False)
            path = operation.path
            while "{" in path:
                before, _, rest = path.partition("{")
                path = before + "%00" + rest.partition("}")[2]
            for address in (path, *(f"{request['url']}?{name}=%00" for name in operation.parameters)):
                answer = admin.request(**{**request, "url": address})
                assert answer.status_code < 500, (operation, address, answer.text)
