"""Whom a tool is for: users of all plans or of some, or the application alone."""

from __future__ import annotations

import time

import httpx
import jwt
import pytest

from ficha import Ficha, JobContext, Plan
from ficha.server import Settings
from tests.app.conftest import url
from tests.server.test_jobs import refused
from tests.support.server_process import SECRET, Served

pytestmark = pytest.mark.long_on("postgresql")

__all__ = ["url"]

FOR_SERVICE = {"tool": "settle"}
FOR_PLANS = {"tool": "restyle"}


def submits(request: dict) -> list[tuple[str, dict]]:
    """Every route that takes a submit, with this one in it."""
    return [("/api/jobs", request), ("/api/queue/enqueue", request), ("/api/batches", {"items": [request]})]


def test_a_tool_for_the_application_does_not_exist_for_users(server: Served, name: str) -> None:
    with server.client(server.account(name, plan="pro")) as user:
        before = user.get("/api/account").json()["balance"]
        for path, request in [*submits(FOR_SERVICE), ("/api/quote", FOR_SERVICE)]:
            problem = refused(user.post(path, json=request), 404, "UNKNOWN_TOOL")
            assert "settle" not in problem["detail"].partition(";")[2]
        assert "settle" not in [tool["name"] for tool in user.get("/api/tools").json()["items"]]
        assert user.get("/api/account").json()["balance"] == before
        assert user.get("/api/jobs").json()["items"] == []


def test_a_tool_for_some_plans_is_refused_on_the_others(server: Served, name: str) -> None:
    with server.client(server.account(name, plan="free")) as user:
        for path, request in submits(FOR_PLANS):
            problem = refused(user.post(path, json=request), 403, "FORBIDDEN")
            assert (problem["plan"], problem["plans"]) == ("free", ["pro", "growth"])
        mixed = {"items": [{"tool": "upscale", "payload": {"image": "x"}}, FOR_PLANS]}
        refused(user.post("/api/batches", json=mixed), 403, "FORBIDDEN")
        quote = user.post("/api/quote", json=FOR_PLANS).json()
        assert (quote["admitted"], quote["refusal"]["code"]) == (False, "FORBIDDEN")
        assert "restyle" not in [tool["name"] for tool in user.get("/api/tools").json()["items"]]
        assert user.get("/api/jobs").json()["items"] == []


def test_it_is_there_for_those_it_is_for(server: Served, name: str) -> None:
    with server.client(server.account(name, plan="growth")) as user:
        assert "restyle" in [tool["name"] for tool in user.get("/api/tools").json()["items"]]
        assert user.post("/api/quote", json=FOR_PLANS).json()["admitted"] is True
        for path, request in submits(FOR_PLANS):
            assert user.post(path, json=request).status_code == 201


@pytest.mark.parametrize("scope", ["service", "admin"])
def test_the_application_itself_may_call_every_tool_for_any_account(server: Served, name: str, scope: str) -> None:
    server.account(name, plan="free")
    with server.client(getattr(server, scope)) as service:
        tools = {tool["name"]: tool for tool in service.get("/api/tools").json()["items"]}
        assert (tools["settle"]["audience"], tools["settle"]["plans"]) == ("service", None)
        assert (tools["restyle"]["audience"], tools["restyle"]["plans"]) == ("user", ["pro", "growth"])
        for tool in (FOR_SERVICE, FOR_PLANS):
            assert service.post("/api/jobs", json={**tool, "account": name}).status_code == 201
            assert service.post("/api/quote", json={**tool, "account": name}).json()["admitted"] is True


async def test_a_jwt_in_a_mounted_application_is_a_user_and_python_is_the_application(url: str) -> None:
    app = Ficha(url, plans=[Plan("free"), Plan("pro")])

    @app.tool(audience="service")
    async def settle(job: JobContext) -> None: ...

    @app.tool(plans=["pro"])
    async def restyle(job: JobContext) -> None: ...

    @app.tool()
    async def paint(job: JobContext) -> None: ...

    key = SECRET[::-1]
    asgi = app.asgi(Settings(secret=SECRET, jwt_secret=key, jwt_audience="shop", jwt_issuer="us"))

    def client(account: str) -> httpx.AsyncClient:
        claims = {"sub": account, "aud": "shop", "iss": "us", "exp": int(time.time()) + 60, "role": "service"}
        headers = {"Authorization": f"Bearer {jwt.encode(claims, key, algorithm='HS256')}"}
        transport = httpx.ASGITransport(asgi)  # type: ignore[arg-type]
        return httpx.AsyncClient(transport=transport, base_url="http://host", headers=headers)

    def names(answer: httpx.Response) -> list[str]:
        return [tool["name"] for tool in answer.json()["items"]]

    async with app:
        await app.open_account("ana", plan="free")
        async with client("ana") as user:
            assert names(await user.get("/api/tools")) == ["paint"]
            answers = [await user.post("/api/jobs", json={"tool": tool}) for tool in ("settle", "restyle", "paint")]
            assert [answer.status_code for answer in answers] == [404, 403, 201]
            await app.change_plan("ana", "pro")
            assert names(await user.get("/api/tools")) == ["paint", "restyle"]
            assert (await user.post("/api/jobs", json={"tool": "restyle"})).status_code == 201
            await app.change_plan("ana", "free")
        async with client("nobody") as stranger:
            assert names(await stranger.get("/api/tools")) == ["paint"]
        for tool in ("settle", "restyle"):
            assert (await app.submit(tool, account="ana")).status == "queued"
            assert (await app.quote(tool, account="ana")).admitted
