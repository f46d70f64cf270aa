"""Signing in to a real server: the cookie counts on every route, and only for pages of the server itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie

import httpx
import jwt
import pytest

from ficha import Ficha
from ficha.server import Settings
from tests.server.isolation import GUARDED, Tenant
from tests.server.test_bad_input import refused
from tests.server.test_credential_ends import revoke
from tests.server.test_following import messages
from tests.support.server_process import SECRET, Served, served

pytestmark = pytest.mark.long_on("postgresql")

PAGE = {"Sec-Fetch-Site": "same-origin"}
JWT_KEY = SECRET[::-1]


def sign_in(client: httpx.Client, token: str) -> httpx.Response:
    return client.post("/api/sign-in", json={"token": token}, headers=PAGE)


@pytest.fixture
def browser(server: Served) -> Iterator[httpx.Client]:
    """A browser that is signed in as an administrator."""
    with server.client(None) as client:
        assert sign_in(client, server.admin).status_code == 200
        yield client


@pytest.fixture(scope="module")
def behind_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that believes the proxy on this machine, and accepts JWTs."""
    accepting = {"FICHA_JWT_SECRET": JWT_KEY, "FICHA_JWT_AUDIENCE": "shop", "FICHA_JWT_ISSUER": "us"}
    database = f"sqlite:///{tmp_path_factory.mktemp('proxied') / 'ficha.db'}"
    with served(database, FICHA_TRUSTED_PROXIES="127.0.0.1", FICHA_ATTEMPTS_PER_HOUR="2", **accepting) as server:
        yield server


def cookie_of(answer: httpx.Response) -> tuple[str, dict[str, str]]:
    """The text and the attributes of the one cookie that the answer sets."""
    [header] = answer.headers.get_list("set-cookie")
    [(name, morsel)] = SimpleCookie(header).items()
    assert name == "ficha_sign_in"
    return morsel.value, {key: value for key, value in morsel.items() if value}


def test_whoever_signs_in_is_known_by_the_cookie_until_they_sign_out(server: Served, name: str) -> None:
    key = server.account(name)
    with server.client(None) as client:
        refused(client.get("/api/sign-in"), 401, "UNAUTHENTICATED")
        answer = sign_in(client, key)
        told = answer.json()
        assert (told["scope"], told["account"]) == ("user", name)
        assert told["name"] == f"key {key[:17]}"
        ends_in = datetime.fromisoformat(told["expires_at"]) - datetime.now(UTC)
        assert abs(ends_in - timedelta(hours=12)) < timedelta(minutes=1)
        text, attributes = cookie_of(answer)
        assert key not in text
        assert int(attributes.pop("max-age")) == pytest.approx(43_200, abs=60)
        assert attributes == {"path": "/", "httponly": True, "samesite": "strict"}
        assert client.get("/api/sign-in").json() == told
        assert client.get("/api/account").json()["id"] == name
        job = client.post("/api/jobs", json={"tool": "embed", "payload": {"text": "x"}}, headers=PAGE)
        assert job.status_code == 201
        assert client.post("/api/sign-out", headers=PAGE).json() == {"signed_out": True}
        assert "ficha_sign_in" not in client.cookies
        refused(client.get("/api/sign-in"), 401, "UNAUTHENTICATED")


def test_who_is_asked_with_a_key_is_told_too(server: Served) -> None:
    with server.client(server.viewer) as viewer:
        assert viewer.get("/api/sign-in").json() == {
            "name": f"key {server.viewer[:19]}",
            "scope": "viewer",
            "account": None,
            "expires_at": None,
            "environment": None,
        }


async def test_the_installation_has_a_name_if_it_was_given_one() -> None:
    app = Ficha("memory:")
    async with app:
        key = (await app.create_api_key("look", scope="viewer")).secret
        settings = Settings(secret=SECRET, environment="production")
        transport = httpx.ASGITransport(app.asgi(settings))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            told = (await client.get("/api/sign-in", headers={"Authorization": f"Bearer {key}"})).json()
    assert told["environment"] == "production"


@pytest.mark.req("D10")
def test_with_the_cookie_every_change_needs_a_page_of_this_server(server: Served, browser: httpx.Client) -> None:
    tenant = Tenant(server)
    before = tenant.state(server)
    others: list[dict[str, str]] = [
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": server.url},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": server.url + "1"},
        {"Origin": server.url, "Host": "other.example"},
    ]
    changing = [operation for operation in GUARDED if operation.method != "GET"]
    assert len(changing) > 40
    for at, operation in enumerate(changing):
        # All of them everywhere would only take long.
        for headers in ({}, others[at % len(others)]):
            request = tenant.request(operation, named=True)
            answer = browser.request(**{**request, "headers": {**request.get("headers", {}), **headers}})
            assert answer.status_code == 403, (operation, headers, answer.text)
            assert "pages of this server" in answer.json()["detail"]
    assert tenant.state(server) == before


@pytest.mark.parametrize("headers", [PAGE, {"Origin": "self"}], ids=["Sec-Fetch-Site", "Origin"])
def test_a_page_of_this_server_may_change_things(
    server: Served, browser: httpx.Client, name: str, headers: dict[str, str]
) -> None:
    own = {key: server.url if value == "self" else value for key, value in headers.items()}
    answer = browser.post("/api/admin/accounts", json={"account": name, "plan": "open"}, headers=own)
    assert answer.status_code == 201, answer.text
    line = browser.get("/api/admin/audit", params={"limit": 1}).json()["items"][0]
    assert (line["act"], line["actor"]) == ("open_account", f"key {server.admin[:18]}")


@pytest.mark.parametrize("path", ["/api/sign-in", "/api/sign-out"])
def test_another_page_signs_nobody_in_or_out(server: Served, path: str) -> None:
    with server.client(None) as client:
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
            answer = client.post(path, json={"token": server.admin}, headers=headers)
            refused(answer, 403, "FORBIDDEN")
            assert "set-cookie" not in answer.headers


def test_a_program_without_an_origin_may_sign_in(server: Served) -> None:
    with server.client(None) as client:
        assert client.post("/api/sign-in", json={"token": server.admin}).status_code == 200


def test_a_header_goes_before_the_cookie(server: Served, browser: httpx.Client, name: str) -> None:
    key = server.account(name)
    assert browser.get("/api/sign-in", headers={"Authorization": f"Bearer {key}"}).json()["account"] == name
    refused(browser.get("/api/sign-in", headers={"Authorization": "Bearer nonsense"}), 401, "UNAUTHENTICATED")
    # What is asked with a key needs no page: no browser adds it by itself.
    answer = browser.post("/api/reservations", json={}, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 201


def test_a_job_token_in_the_address_goes_before_the_cookie(server: Served, browser: httpx.Client) -> None:
    tenant, other = Tenant(server), Tenant(server)
    accept = {"Accept": "application/json"}
    shown = browser.get(f"/api/jobs/{tenant.job}/events", params={"token": tenant.token}, headers=accept)
    assert shown.status_code == 200
    shown = browser.get(f"/api/jobs/{other.job}/events", params={"token": tenant.token}, headers=accept)
    refused(shown, 404, "NOT_FOUND")


def test_what_cannot_be_signed_in_with_is_refused(server: Served) -> None:
    tenant = Tenant(server)
    with server.client(None) as client:
        refused(sign_in(client, tenant.token), 403, "FORBIDDEN")
        refused(sign_in(client, "ficha_admin_" + "x" * 33), 401, "UNAUTHENTICATED")
        refused(sign_in(client, "words"), 401, "UNAUTHENTICATED")
        refused(sign_in(client, ""), 422, "INVALID_ARGUMENT")
        refused(sign_in(client, "x." * 4_097), 401, "UNAUTHENTICATED")
        refused(sign_in(client, "x" * 16_384), 413, "TOO_LARGE")
        assert not client.cookies


def test_a_viewer_who_signed_in_changes_nothing(server: Served) -> None:
    with server.client(None) as client:
        assert sign_in(client, server.viewer).json()["scope"] == "viewer"
        assert client.get("/api/admin/pools").status_code == 200
        refused(client.post("/api/admin/pools/gpu/pause", headers=PAGE), 403, "FORBIDDEN")


def test_a_revoked_key_ends_the_sign_in_and_its_stream(server: Served, name: str) -> None:
    key = server.account(name)
    with server.client(None) as client:
        sign_in(client, key)
        made = client.post("/api/jobs", json={"tool": "embed", "payload": {"text": "x"}}, headers=PAGE)
        job = made.json()["job_id"]
        with client.stream("GET", f"/api/jobs/{job}/events") as stream:
            following = messages(stream.iter_lines())
            while next(following)[1] != "job":
                pass
            revoke(server, key)
            *_, (_, kind, data) = following
        assert (kind, data["code"]) == ("refused", "UNAUTHENTICATED")
        refused(client.get("/api/sign-in"), 401, "UNAUTHENTICATED")
        assert client.post("/api/sign-out", headers=PAGE).status_code == 200


def test_a_key_revoked_by_this_process_ends_the_sign_in_at_once(server: Served, name: str) -> None:
    key = server.account(name)
    with server.client(None) as client, server.client(server.admin) as admin:
        sign_in(client, key)
        assert client.get("/api/account").status_code == 200
        keys = admin.get("/api/admin/api-keys", params={"limit": 1000}).json()["items"]
        [key_id] = [one["id"] for one in keys if one["account"] == name]
        admin.post(f"/api/admin/api-keys/{key_id}/revoke")
        refused(client.get("/api/account"), 401, "UNAUTHENTICATED")


def token_for(account: str, seconds: float) -> str:
    claims = {"sub": account, "aud": "shop", "iss": "us", "exp": int(time.time() + seconds)}
    return jwt.encode(claims, JWT_KEY, algorithm="HS256")


def test_a_sign_in_by_jwt_is_that_account_until_the_jwt_ends(behind_proxy: Served, name: str) -> None:
    behind_proxy.account(name)
    with behind_proxy.client(None) as client:
        answer = sign_in(client, token_for(name, 600))
        assert (answer.json()["scope"], answer.json()["account"]) == ("user", name)
        assert int(cookie_of(answer)[1]["max-age"]) <= 600
        assert client.get("/api/account").json()["id"] == name


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_over_https_the_cookie_is_for_https_also_behind_a_trusted_proxy(
    behind_proxy: Served, server: Served, scheme: str
) -> None:
    forwarded = {**PAGE, "X-Forwarded-Proto": scheme, "X-Forwarded-For": "192.0.2.7"}
    with behind_proxy.client(None) as client:
        answer = client.post("/api/sign-in", json={"token": behind_proxy.admin}, headers=forwarded)
        assert ("secure" in cookie_of(answer)[1]) is (scheme == "https")
    with server.client(None) as client:
        # The other server trusts no proxy.
        answer = client.post("/api/sign-in", json={"token": server.admin}, headers=forwarded)
        assert "secure" not in cookie_of(answer)[1]


def test_failed_sign_ins_count_by_address_and_a_right_one_is_always_accepted(behind_proxy: Served) -> None:
    with behind_proxy.client(None) as client:
        client.headers.update({**PAGE, "X-Forwarded-For": "192.0.2.99"})
        codes = [client.post("/api/sign-in", json={"token": "guess"}).json()["code"] for _ in range(3)]
        assert codes == ["UNAUTHENTICATED", "UNAUTHENTICATED", "RATE_LIMITED"]
        assert client.post("/api/sign-in", json={"token": behind_proxy.admin}).status_code == 200


def test_no_log_line_has_the_credential_or_the_cookie(server: Served, name: str) -> None:
    key = server.account(name)
    with server.client(None) as client:
        sign_in(client, key)
        text = client.cookies["ficha_sign_in"]
        client.get("/api/account")
        client.get("/healthz")
    lines = "".join(server.lines)
    assert key[20:] not in lines
    assert text not in lines


def test_mounted_below_a_path_the_cookie_is_for_that_path() -> None:
    from fastapi import FastAPI

    from ficha import Ficha, Plan
    from ficha.server import Settings

    async def within() -> None:
        async with Ficha("memory:", plans=[Plan("free")]) as app:
            host = FastAPI()
            host.mount("/ficha", app.asgi(Settings(secret=SECRET)))
            made = await app.create_api_key("a", scope="admin")
            transport = httpx.ASGITransport(host)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url="https://host") as client:
                answer = await client.post("/ficha/api/sign-in", json={"token": made.secret}, headers=PAGE)
                attributes = cookie_of(answer)[1]
                assert (attributes["path"], attributes["secure"]) == ("/ficha", True)
                assert (await client.get("/ficha/api/sign-in")).json()["scope"] == "admin"

    asyncio.run(within())
