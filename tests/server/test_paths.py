"""Names with slashes and percent signs in paths: each account and pool is reached at its own address only."""

from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from ficha import Ficha, Plan, Pool
from ficha.client import AsyncClient
from ficha.server import Settings
from tests.server.raw_http import behind
from tests.support.server_process import SECRET

NAMES = ["bob", "bob/ledger", "bob/ledger/ledger", "bob%2Fledger", "bob%252Fledger", "/", "a//b", "ü ?#=", "50%", ".."]


def without_raw_path(app: ASGIApp) -> ASGIApp:
    """A server that gives the decoded path alone, as the specification allows."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        await app({name: value for name, value in scope.items() if name != "raw_path"}, receive, send)

    return served


@pytest.fixture
async def app() -> AsyncIterator[Ficha]:
    async with Ficha("memory://", plans=[Plan("open")], pools=[Pool(name) for name in NAMES]) as opened:
        for name in NAMES:
            await opened.open_account(name)
        yield opened


async def key(app: Ficha) -> dict[str, str]:
    made = await app.create_api_key("tests", scope="admin")
    return {"Authorization": f"Bearer {made.secret}"}


def segment(name: str) -> str:
    return {"..": "%2E%2E"}.get(name) or quote(name, safe="")


@pytest.mark.parametrize("root", ["", "/queue", "/a%b"])
async def test_every_account_and_pool_reaches_its_own_page(app: Ficha, root: str) -> None:
    asgi: ASGIApp = app.asgi(Settings(secret=SECRET))
    asgi = Starlette(routes=[Mount(root, asgi)]) if root else asgi
    headers = await key(app)
    async with (
        behind(asgi) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", headers=headers) as client,
    ):
        admin = f"{quote(root)}/api/admin"
        for number, name in enumerate(NAMES, 1):
            at = f"{admin}/accounts/{segment(name)}"
            assert (await client.get(at)).json()["id"] == name
            granted = await client.post(f"{at}/grant", json={"amount": number})
            assert granted.json()["balance"] == number, granted.text
            assert [line["amount"] for line in (await client.get(f"{at}/ledger")).json()["items"]] == [number]
            paused = await client.post(f"{admin}/pools/{segment(name)}/pause")
            assert (paused.json()["name"], paused.json()["paused"]) == (name, True)
    assert {account.id: account.balance for account in (await app.accounts()).items} == {
        name: number for number, name in enumerate(NAMES, 1)
    }


async def test_the_client_writes_names_so(app: Ficha) -> None:
    headers = await key(app)
    async with behind(app.asgi(Settings(secret=SECRET))) as server:
        url = f"http://127.0.0.1:{server.port}"
        async with AsyncClient(url, headers["Authorization"].removeprefix("Bearer ")) as client:
            for name in NAMES:
                assert (await client.grant(name, 7)).balance == 7
                assert (await client.resize_pool(name, 3)).name == name
    assert {account.balance for account in (await app.accounts()).items} == {7}


async def test_a_slash_that_is_not_encoded_ends_the_name(app: Ficha) -> None:
    headers = await key(app)
    transport = httpx.ASGITransport(app.asgi(Settings(secret=SECRET)))
    async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as client:
        await client.post("/api/admin/accounts/bob/grant", json={"amount": 5})
        page = (await client.get("/api/admin/accounts/bob/ledger")).json()
        assert [line["amount"] for line in page["items"]] == [5]
        assert (await client.get("/api/admin/accounts/bob/ledger/x")).status_code == 404


async def test_without_the_raw_path_a_name_is_one_part_of_the_path(app: Ficha) -> None:
    headers = await key(app)
    transport = httpx.ASGITransport(without_raw_path(app.asgi(Settings(secret=SECRET))))
    async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as client:
        for name in ("bob", "ü ?#=", "50%", "bob%2Fledger"):
            assert (await client.get(f"/api/admin/accounts/{segment(name)}")).json()["id"] == name
