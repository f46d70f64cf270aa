"""The codes that the OpenAPI document names for a route are those that the route gives: each one is provoked.

What the route's own rules refuse with (`gives`) is compared with the source in `test_openapi.py`; here are the codes
that every route has by being guarded, by taking a body, or by being served at all.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any, get_args
from uuid import uuid4

import httpx
import pytest
from fastapi.routing import APIRoute

from ficha import CommitLimits, JobContext
from ficha.core.codes import AnyCode
from ficha.core.records import ApiKeyScope
from ficha.providers import ProviderCall
from ficha.server import Settings
from ficha.server.openapi import codes_of_route, guard_of, takes_body
from ficha.store.base import Unavailable
from ficha.store.memory import MemoryStore
from ficha.testing import ScriptedProvider
from tests.engine.instrumented_store import InstrumentedStore
from tests.server.test_openapi import ROUTES, SERVER
from tests.support.server_process import SECRET, Served
from tests.support.shop import shop

IMPATIENT = CommitLimits(give_up_s=0.0)
named = pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{min(route.methods)} {route.path}")


class World:
    """The shop behind ASGI on a store that can be broken, with a credential of each scope."""

    def __init__(self, **settings: Any) -> None:
        self.store = InstrumentedStore(MemoryStore())
        self.app = shop(store=self.store, secret=SECRET, public_url="http://host", commit_limits=IMPATIENT)

        @self.app.provider_tool(ScriptedProvider("painter"))
        async def paint(job: JobContext) -> ProviderCall:
            return ProviderCall("painter", {})

        self.asgi = self.app.asgi(Settings(secret=SECRET, **settings))

    async def __aenter__(self) -> World:
        await self.app.open()
        await self.app.open_account("ana", plan="open", credits=100)
        self.job = (await self.app.submit("upscale", {"image": "x"}, account="ana")).job_id
        scopes: tuple[Any, ...] = get_args(ApiKeyScope)
        self.tokens = {
            scope: (
                await self.app.create_api_key(scope, scope=scope, account="ana" if scope == "user" else None)
            ).secret
            for scope in scopes
        }
        address = self.app.callback_url("painter", self.job, 0)
        assert address is not None
        self.address = address.removeprefix("http://host")
        self.tokens["job"] = self.asgi.state.identity.job_tokens.issue(self.job, "ana").token  # type: ignore[attr-defined]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.store.read_fault = self.store.always = None
        await self.app.close()

    async def code(self, route: APIRoute, scope: str | None, query: str = "", **request: Any) -> str | None:
        """The code with which a route answers somebody."""
        path = re.sub(r"\{\w+\}", self.job, self.address if takes_bytes(route) else route.path)
        token = None if scope is None else self.tokens.get(scope, scope)
        headers = request.pop("headers", {}) | ({} if token is None else {"Authorization": f"Bearer {token}"})
        transport = httpx.ASGITransport(self.asgi)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
            answer = await client.request(min(route.methods), path + query, headers=headers, **request)
        return answer.json()["code"] if answer.headers["content-type"] == "application/problem+json" else None


def takes_bytes(route: APIRoute) -> bool:
    """Whether a route takes a body of any kind: it is where a provider calls back, at an address that was given out."""
    return bool(route.endpoint.gives.takes_bytes)  # type: ignore[attr-defined]


def allowed(route: APIRoute) -> str | None:
    guard = guard_of(route)
    assert guard is not None
    return min(guard.scopes, default=None, key=("admin", "service", "user", "viewer", "job").index)


async def never_ends() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.Event().wait()


JSON = {"Content-Type": "application/json"}


async def provoked(route: APIRoute) -> set[AnyCode | None]:
    """Every code that is had without the route's own rules."""
    found: set[Any] = set()
    guard, caller = guard_of(route), allowed(route)
    assert guard is not None
    async with World(attempts_per_hour=1, body_bytes=1_000, batch_body_bytes=1_000, body_s=0.02) as world:
        found.add(await world.code(route, caller, "?nonsense=1"))
        if guard.scopes:
            found.add(await world.code(route, None))
            stranger = f"ficha_user_{uuid4().hex}"
            found |= {await world.code(route, stranger) for _ in range(2)}
            found |= {await world.code(route, scope) for scope in world.tokens.keys() - guard.scopes}
        if takes_body(route):
            found.add(await world.code(route, caller, content=b"{", headers=JSON))
            found.add(await world.code(route, caller, content=b"x", headers={"Content-Type": "text/plain"}))
            found.add(await world.code(route, caller, content=b" " * 2_000, headers=JSON))
            found.add(await world.code(route, caller, content=never_ends(), headers=JSON))
        if takes_bytes(route):
            found.add(await world.code(route, caller, content=b" " * 2_000))
            found.add(await world.code(route, caller, content=never_ends()))
        if guard.scopes or takes_bytes(route):
            for world.store.read_fault in (Unavailable("it is away"), RuntimeError("a defect")):
                world.store.always = world.store.read_fault if takes_bytes(route) else None
                # Another key each time, which has to be read: one that was used is remembered for a moment.
                world.asgi.state.identity._keys._cache.clear()  # type: ignore[attr-defined]
                found.add(await world.code(route, caller))
    return found - {None}


@named
async def test_what_the_document_names_is_what_the_route_gives(route: APIRoute) -> None:
    own = route.endpoint.gives.refuses  # type: ignore[attr-defined]
    at_the_door: set[Any] = {"HEADERS_TOO_LARGE"}  # Of the server process; the test below.
    is_plain = not (guard_of(route).scopes or takes_bytes(route))  # type: ignore[union-attr]
    defect: set[Any] = {"INTERNAL"} if is_plain else set()  # Nothing can be broken there.

    found = await provoked(route)

    assert codes_of_route(route) - own - at_the_door - defect <= found
    assert found <= codes_of_route(route)


@named
def test_headers_can_be_too_large_for_every_route(route: APIRoute, server_on_sqlite: Served) -> None:
    path = re.sub(r"\{\w+\}", str(uuid4()), route.path)
    with server_on_sqlite.client(None) as client:
        answer = client.request(min(route.methods), path, headers={"X-Large": "x" * 40_000})
    assert answer.json()["code"] == "HEADERS_TOO_LARGE"


@named
def test_the_document_names_the_codes_of_the_route_and_no_others(route: APIRoute) -> None:
    for method in route.methods - {"HEAD"}:
        responses = SERVER.openapi()["paths"][route.path_format][method.lower()]["responses"]
        told = {
            code
            for response in responses.values()
            if "application/problem+json" in response.get("content", {})
            for code in response["description"].split(", ")
        }
        assert told == codes_of_route(route)
