"""HEAD, the methods that an URL has, and answers that a caller has seen already: as RFC 9110 says, on every route."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.routing import Match, Route

from ficha import Ficha, Plan
from ficha.server import Settings, asgi
from tests.server.isolation import OPERATIONS, Tenant
from tests.server.raw_http import behind
from tests.server.shop import app
from tests.support.server_process import SECRET, Served

SERVER = asgi(app, Settings(secret=SECRET))


@pytest.mark.long_on("postgresql")
def test_a_head_has_the_status_and_the_headers_of_a_get_and_no_body(server: Served) -> None:
    tenant = Tenant(server)
    with server.client(server.admin) as client:
        for operation in [one for one in OPERATIONS if one.method == "GET"]:
            request = {**tenant.request(operation, named=True), "headers": {"Accept": "application/json"}}
            get = client.request(**request)
            head = client.request(**{**request, "method": "HEAD"})
            assert (head.status_code, head.content) == (get.status_code, b""), operation
            assert {*head.headers} == {*get.headers} - {"transfer-encoding"}, operation
            assert head.headers["content-type"] == get.headers["content-type"], operation


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/api/openapi.json", "/docs", "/nothing", "/api/jobs"])
async def test_no_byte_follows_the_answer_to_a_head_under_any_server(path: str) -> None:
    async with Ficha("memory://", plans=[Plan("open")]) as opened:
        transport = httpx.ASGITransport(opened.asgi(Settings(secret=SECRET)))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            client.headers["Accept-Encoding"] = "identity"
            head, get = await client.head(path), await client.get(path)
            assert (head.status_code, head.content) == (get.status_code, b"")
            assert head.headers["content-length"] == get.headers["content-length"] == str(len(get.content))


async def test_the_answer_to_a_head_of_a_stream_is_complete_at_once() -> None:
    async with Ficha("memory://", plans=[Plan("open")]) as opened:
        opened.tool(talk)
        await opened.open_account("ana")
        job = (await opened.submit("talk", account="ana")).job_id
        key = (await opened.create_api_key("ana", account="ana")).secret
        async with (
            behind(opened.asgi(Settings(secret=SECRET))) as server,
            server.connected() as wire,
            asyncio.timeout(20),
        ):
            for path in (f"/api/jobs/{job}/events", "/api/account/events"):
                await wire.send(f"HEAD {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
                reply = await wire.reply()
                assert (reply.status, reply.body) == (200, b"")
                assert reply.headers["content-type"].startswith("text/event-stream")


async def talk(job: object) -> None: ...


def test_a_wrong_method_is_told_all_methods_of_the_url() -> None:
    for route in SERVER.routes:
        assert isinstance(route, Route)
        path = route.path_format.replace("{", "").replace("}", "")
        scope = {"type": "http", "path": path, "method": "PATCH", "root_path": "", "headers": []}
        fitting = [one for one in SERVER.routes if one.matches(scope)[0] is not Match.NONE]  # type: ignore[attr-defined]
        expected = set[str]().union(*(one.methods for one in fitting))  # type: ignore[attr-defined]
        answer = asyncio.run(_patch(path))
        assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED"), path
        assert set(answer.headers["allow"].split(", ")) == expected, path
    assert asyncio.run(_patch("/api/jobs")).headers["allow"] == "GET, HEAD, POST"
    assert asyncio.run(_patch("/api/files/x")).headers["allow"] == "DELETE, GET, HEAD"


async def _patch(path: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(SERVER), base_url="http://x") as client:
        return await client.patch(path)


async def test_a_version_that_was_seen_is_known_in_any_form_of_its_tag() -> None:
    async with Ficha("memory://", plans=[Plan("open")]) as opened:
        opened.tool(talk)
        await opened.open_account("ana")
        job = (await opened.submit("talk", account="ana")).job_id
        login = {"Authorization": f"Bearer {(await opened.create_api_key('ana', account='ana')).secret}"}
        transport = httpx.ASGITransport(opened.asgi(Settings(secret=SECRET)))
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=login) as client:
            for path in (f"/api/jobs/{job}", "/docs"):
                tag = (await client.get(path)).headers["etag"]
                strong = tag.removeprefix("W/")
                assert tag != strong
                for seen in (tag, strong, "*", f'"other", {strong}', f'W/"other" ,{tag}', f"{tag},"):
                    answer = await client.get(path, headers={"If-None-Match": seen})
                    assert (answer.status_code, answer.content) == (304, b""), seen
                twice = await client.get(path, headers=[("If-None-Match", '"other"'), ("If-None-Match", strong)])
                assert twice.status_code == 304
                for other in ("", '"other"', strong.strip('"'), strong[:-2] + '"', f"w/{strong}"):
                    assert (await client.get(path, headers={"If-None-Match": other})).status_code == 200, other
