"""Logging in over HTTP, on a real server that takes JWTs: who is let in, and who is not however they try."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.server.test_bad_input import refused
from tests.server.test_following import messages
from tests.support.server_process import Served, served

KEY = "a-key-for-tokens-of-the-tests-0123456789"
AUDIENCE, ISSUER = "ficha-tests", "https://id.example"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path: Path = tmp_path_factory.mktemp("logging_in") / "ficha.db"
    settings = {"FICHA_JWT_SECRET": KEY, "FICHA_JWT_AUDIENCE": AUDIENCE, "FICHA_JWT_ISSUER": ISSUER}
    with served(f"sqlite:///{path}", **settings) as server:
        server.account("ana")
        yield server


def token(key: str = KEY, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **claims: Any) -> str:
    now = int(time.time())
    told = {"sub": "ana", "aud": AUDIENCE, "iss": ISSUER, "iat": now, "exp": now + 60} | claims
    kept = {name: value for name, value in told.items() if value is not None}
    return jwt.encode(kept, key, algorithm=algorithm, headers=headers)


def unsigned(name: str) -> str:
    head, body, _ = token().split(".")
    header = base64.urlsafe_b64encode(json.dumps({"alg": name, "typ": "JWT"}).encode()).decode().rstrip("=")
    assert head != header
    return f"{header}.{body}."


def test_whoever_the_token_names_is_let_in_as_that_account(server: Served) -> None:
    with server.client(token()) as user:
        assert user.get("/api/account").json()["id"] == "ana"
        refused(user.get("/api/admin/accounts"), 403, "FORBIDDEN")
        refused(user.get("/api/account", params={"account": "ben"}), 403, "FORBIDDEN")


def test_a_stream_ends_when_its_token_expires(server: Served) -> None:
    with server.client(token()) as user:
        job = user.post("/api/jobs", json={"tool": "embed", "payload": {"text": "x"}}).json()["job_id"]
    for path in (f"/api/jobs/{job}/events", "/api/account/events"):
        short = token(exp=int(time.time()) + 2)
        with server.client(short) as user, user.stream("GET", path) as stream:
            *_, (number, kind, data) = messages(stream.iter_lines())
            assert (number, kind) == (None, "refused")
            assert isinstance(data, dict)
            assert data["code"] == "UNAUTHENTICATED"
            assert "expired" in data["detail"]


def test_a_job_token_expires_no_later_than_what_it_was_made_with(server: Served) -> None:
    ends_at = int(time.time()) + 60
    with server.client(token(exp=ends_at)) as user:
        job = user.post("/api/jobs", json={"tool": "embed", "payload": {"text": "y"}}).json()["job_id"]
        made = user.post(f"/api/jobs/{job}/token", json={"ttl_s": 3_600}).json()
        assert datetime.fromisoformat(made["expires_at"]).timestamp() == ends_at


@pytest.mark.parametrize(
    "shown",
    [
        *(unsigned(name) for name in ("none", "None", "nOnE", "HS256")),
        token(key="another-key-for-tokens-of-the-tests-0123"),
        token(algorithm="HS512", key=KEY * 2),
        token(exp=1),
        token(exp=None),
        token(nbf=2_000_000_000),
        token(aud="another"),
        token(aud=None),
        token(iss=ISSUER + ".evil.example"),
        token(iss=None),
        token(sub=None),
        token(sub=""),
        token(headers={"crit": ["exp"]}),
        token(headers={"kid": "../../etc/passwd"}) + "x",
        token()[:-3],
        "x.y.z",
        "ficha_admin_" + "A" * 33,
        "A" * 100_000,
    ],
    ids=lambda shown: None,
)
def test_a_token_that_does_not_hold_opens_nothing(server: Served, shown: str) -> None:
    with server.client(None) as stranger:
        answer = stranger.get("/api/account", headers={"Authorization": f"Bearer {shown}"})

    if len(shown) > 32_768:
        refused(answer, 431, "HEADERS_TOO_LARGE")
    else:
        refused(answer, 401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert shown not in answer.text


def test_a_token_of_one_job_is_no_log_in_and_a_log_in_no_token_of_one_job(server: Served) -> None:
    with server.client(token()) as user:
        job = user.post("/api/jobs", json={"tool": "upscale", "payload": {"image": "x"}}).json()["job_id"]
        short = user.post(f"/api/jobs/{job}/token").json()["token"]
    with server.client(short) as browser:
        assert browser.get(f"/api/jobs/{job}").status_code == 200
        refused(browser.get("/api/account"), 403, "FORBIDDEN")
    with server.client(None) as browser:
        refused(browser.get(f"/api/jobs/{job}/events", params={"token": token()}), 401, "UNAUTHENTICATED")


def test_too_many_failures_are_told_to_wait_and_the_right_key_still_opens(tmp_path: Path) -> None:
    with served(f"sqlite:///{tmp_path / 'ficha.db'}", FICHA_ATTEMPTS_PER_HOUR="3") as server:
        with server.client("ficha_admin_wrong") as stranger:
            codes = [stranger.get("/api/account").status_code for _ in range(5)]
            told = stranger.get("/api/account")
        assert codes == [401, 401, 401, 429, 429]
        assert int(told.headers["retry-after"]) > 0
        refused(told, 429, "RATE_LIMITED")
        with server.client(server.admin) as admin:
            assert admin.get("/api/admin/accounts").status_code == 200
