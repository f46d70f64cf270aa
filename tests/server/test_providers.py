"""External providers over HTTP: submits are told of an outage, and operators see and move breakers and see margins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ficha import Ficha
from ficha.client import AsyncClient
from tests.app.test_turns import Limited, declare_drawing, fail
from tests.server.test_embedding import client
from tests.support.shop import claim_one, shop


class Site:
    """The shop with a tool of a provider, and who asks it."""

    def __init__(self, app: Ficha, host: Any, admin: httpx.AsyncClient, user: httpx.AsyncClient) -> None:
        self.app, self.host, self.admin, self.user = app, host, admin, user


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[Site]:
    app = shop(f"sqlite:///{path / 'ficha.db'}")
    declare_drawing(app)
    host = app.asgi()
    async with app:
        await app.open_account("ana", plan="open", credits=100)
        root = (await app.create_api_key("root", scope="admin")).secret
        own = (await app.create_api_key("ana", account="ana")).secret
        async with client(host, root) as admin, client(host, own) as user:
            yield Site(app, host, admin, user)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with served(tmp_path) as found:
        yield found


async def test_a_submit_is_told_when_to_come_back_and_an_operator_resets_the_breaker(site: Site) -> None:
    for _ in range(2):
        await fail(site.app, Limited(), "502 Bad Gateway")
    refused = await site.user.post("/api/jobs", json={"tool": "draw"})
    problem = refused.json()
    assert (refused.status_code, problem["code"], problem["retryable"]) == (503, "PROVIDER_DOWN", True)
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    quote = (await site.user.post("/api/quote", json={"tool": "draw"})).json()
    assert (quote["admitted"], quote["refusal"]["code"]) == (False, "PROVIDER_DOWN")
    assert (await site.user.get("/api/account")).json()["balance"] == 100

    [provider] = (await site.admin.get("/api/admin/providers")).json()["items"]
    assert (provider["name"], provider["breaker"], provider["trips"]) == ("fal", "open", 1)
    assert provider["error"] == "502 Bad Gateway"
    figures = (await site.admin.get("/metrics")).text
    assert 'ficha_provider_down{provider="fal"} 1.0' in figures
    assert 'ficha_provider_turns{provider="fal"} 0.0' in figures

    reset = (await site.admin.post("/api/admin/providers/fal/reset")).json()
    assert reset["breaker"] == "closed"
    assert (await site.user.post("/api/jobs", json={"tool": "draw"})).status_code == 201
    opened = await site.admin.post("/api/admin/providers/fal/open", json={"seconds": 60, "reason": "maintenance"})
    assert (opened.json()["breaker"], opened.json()["error"]) == ("open", "maintenance")
    acts = [line["act"] for line in (await site.admin.get("/api/admin/audit")).json()["items"]][:3]
    assert acts == ["open_breaker", "close_breaker", "open_breaker"]
    unknown = await site.admin.post("/api/admin/providers/none/reset")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "NOT_FOUND")


async def test_users_see_neither_providers_nor_what_they_take(site: Site) -> None:
    submitted = (await site.user.post("/api/jobs", json={"tool": "draw"})).json()
    lease = await claim_one(site.app, "cpu")
    told = await site.admin.post(
        "/api/worker/finish",
        json={"job_id": lease.job_id, "epoch": lease.epoch, "outcome": "completed", "provider_cost": 0.125},
    )
    assert told.status_code == 200
    path = f"/api/jobs/{submitted['job_id']}"
    assert (await site.user.get(path)).json()["provider_cost"] is None
    assert (await site.admin.get(path)).json()["provider_cost"] == 0.125
    for method, hidden in (("GET", "margins"), ("GET", "providers"), ("POST", "providers/fal/reset")):
        assert (await site.user.request(method, f"/api/admin/{hidden}")).status_code == 403
    [line] = (await site.admin.get("/api/admin/margins")).json()["items"]
    assert (line["tool"], line["plan"], line["jobs"], line["credits"]) == ("draw", "open", 1, 3)
    assert line["provider_cost"] == 0.125
    day = line["day"]
    assert len((await site.admin.get("/api/admin/margins", params={"since": day, "until": day})).json()["items"]) == 1
    for params in ({"since": "yesterday"}, {"since": "2020-01-01", "until": "2026-01-01"}):
        wrong = await site.admin.get("/api/admin/margins", params=params)
        assert (wrong.status_code, wrong.json()["code"]) == (422, "INVALID_ARGUMENT")


async def test_a_client_does_the_same(site: Site) -> None:
    async with AsyncClient(
        "http://host",
        token=site.admin.headers["authorization"].partition(" ")[2],
        transport=httpx.ASGITransport(site.host),
    ) as remote:
        assert [view.name for view in await remote.provider_states()] == ["fal"]
        assert (await remote.open_breaker("fal", seconds=5)).breaker == "open"
        assert (await remote.reset_breaker("fal")).breaker == "closed"
        assert await remote.margins() == await site.app.margins() == []
