"""Answers that nobody takes, and what one caller may have under way, on a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ficha.errors import Refused
from ficha.server.answer_limits import PART_BYTES, AnswerLimits
from ficha.server.identity import Caller
from ficha.server.limits import BodyLimits
from ficha.server.problems import refused_response
from ficha.server.settings import Settings
from tests.server.raw_http import Behind, Wire, behind
from tests.support.waiting import until

SECRET = "TgYQ3MvH0sTzB5kqjXw1c9fRrL8uZeNd"  # noqa: S105 (for the tests alone)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 32 * 2**20
"""More than the sockets of both sides hold."""


@asynccontextmanager
async def deaf(server: Behind) -> AsyncIterator[socket.socket]:
    """A connection of a client that has sent a request and reads nothing."""
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        found.setblocking(False)
        await asyncio.get_running_loop().sock_connect(found, ("127.0.0.1", server.port))
        await asyncio.get_running_loop().sock_sendall(found, GET)
        yield found


def answering(size: int, **headers: str) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"a" * size, headers=headers)(scope, receive, send)

    return app


async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
    """An answer in many small parts, without an end."""

    async def leave() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.create_task(leave())
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while not leaving.done():
        await send({"type": "http.response.body", "body": b"a" * 10_000, "more_body": True})
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "app",
    [answering(LARGE), answering(LARGE, connection="close"), streaming],
    ids=["a whole answer", "before the connection closes", "a stream"],
)
async def test_a_client_that_reads_nothing_is_cut_off(app: ASGIApp) -> None:
    begun = asyncio.Event()

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await app(scope, receive, send)

    async with behind(served, taken_s=0.2, keep_alive_s=3_600) as server, deaf(server):
        await begun.wait()
        await until(lambda: not server.server.server_state.connections)
        await until(lambda: not server.server.server_state.tasks)


async def test_also_where_the_answer_was_complete_but_for_a_few_bytes() -> None:
    """The rest is smaller than what servers usually keep in their buffers without waiting."""
    sent = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        transport = scope["transport"]
        # Fills the sockets of both sides, up to the first bytes that stay here.
        headers = [(b"content-length", b"1073741824")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while not transport.get_write_buffer_size():
            await send({"type": "http.response.body", "body": b"a" * 1_000, "more_body": True})
        sent.set()
        assert transport.get_write_buffer_size() <= 1_000
        await asyncio.Event().wait()

    class WithTransport:
        def __init__(self, server: list[Behind]) -> None:
            self.server = server

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            [connection] = self.server[0].server.server_state.connections
            await app({**scope, "transport": connection.transport}, receive, send)

    found: list[Behind] = []
    async with behind(WithTransport(found), taken_s=0.2) as server:
        found.append(server)
        async with deaf(server):
            await sent.wait()
            await until(lambda: not server.server.server_state.connections)


async def test_a_slow_client_that_takes_something_in_time_gets_all() -> None:
    async with behind(AnswerLimits(answering(8 * 2**20), settings()), taken_s=30.0) as server, deaf(server) as found:
        got = 0
        while got < 8 * 2**20:
            async with asyncio.timeout(20):
                got += len(await asyncio.get_running_loop().sock_recv(found, 65_536))


def settings(**given: float) -> Settings:
    return Settings(secret=SECRET, **given)  # type: ignore[arg-type]


async def test_also_a_server_that_waits_without_end_gives_up() -> None:
    """Under a server that is not ours, `send` waits for the client for as long as that takes."""
    takes = asyncio.Event()
    sent: list[int] = []

    async def send(message: dict[str, object]) -> None:
        if len(sent) == 3:
            await takes.wait()
        sent.append(len(message.get("body", b"")))  # type: ignore[arg-type]

    async def receive() -> dict[str, object]:
        raise AssertionError("nothing was to be read")

    limits = AnswerLimits(answering(10 * PART_BYTES + 1), settings(write_s=0.01))
    limits._within_s = 0.01
    scope = {"type": "http", "method": "GET", "headers": []}
    async with asyncio.timeout(20):
        await limits(scope, receive, send)  # type: ignore[arg-type]
    assert sent == [0, PART_BYTES, PART_BYTES]
    takes.set()
    sent.clear()
    limits._within_s = 20.0
    await limits(dict(scope), receive, send)  # type: ignore[arg-type]
    assert sent == [0, *[PART_BYTES] * 10, 1]


# What one caller may have


class Shop:
    """An application that knows its callers by a header, reads the body, and answers with so many bytes."""

    def __init__(self, size: int = 10) -> None:
        self.size = size
        self.under_way = 0
        self.go = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        name = request.headers.get("x-caller", "ana")
        caller = Caller("service", key_id=name) if name.startswith("key") else Caller("user", name)
        try:
            request.state.usage.begin(caller)
            body = await request.body()
            self.under_way += 1
            try:
                await self.go.wait()
            finally:
                self.under_way -= 1
            response = Response(b"a" * (self.size or len(body)))
        except Refused as refused:
            response = refused_response(refused)
        await response(scope, receive, send)


@asynccontextmanager
async def shop(app: Shop, **given: float) -> AsyncIterator[tuple[Behind, AnswerLimits]]:
    limits = AnswerLimits(BodyLimits(app, settings(**given)), settings(**given))
    async with behind(limits) as server:
        yield server, limits


def asking(caller: str, body: bytes = b"", *, declared: bool = True, method: str = "GET") -> bytes:
    head = f"{method} / HTTP/1.1\r\nHost: x\r\nX-Caller: {caller}\r\n"
    if not body:
        return f"{head}\r\n".encode()
    if declared:
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    return f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"


async def test_an_account_has_so_many_requests_under_way_and_an_operator_others() -> None:
    app = Shop()
    async with shop(app, account_requests=2, operator_requests=3) as (server, limits):
        waiting: list[asyncio.Task[object]] = []
        for caller, most in (("ana", 2), ("bob", 2), ("key 1", 3), ("key 2", 3)):
            before = app.under_way
            waiting += [asyncio.create_task(server.ask(asking(caller))) for _ in range(most)]
            await until(lambda expected=before + most: app.under_way == expected)
            reply = await server.ask(asking(caller))
            assert (reply.status, reply.json["code"], reply.json["retryable"]) == (429, "RATE_LIMITED", True)
            assert reply.headers["retry-after"] == "1"
            assert f"may have {most} requests under way" in reply.json["detail"]
        app.go.set()
        await asyncio.gather(*waiting)
        assert (await server.ask(asking("ana"))).status == 200
        await until(limits.under_way.is_empty)


@pytest.mark.parametrize("declared", [True, False])
async def test_an_account_has_so_many_bytes_of_bodies_under_way(declared: bool) -> None:
    app = Shop()
    async with shop(app, account_bytes=1_000, operator_bytes=2_000) as (server, limits):
        waiting = [
            asyncio.create_task(server.ask(asking(caller, b"a" * size, declared=declared, method="POST")))
            for caller, size in (("ana", 600), ("ana", 400), ("bob", 1_000), ("key 1", 1_500))
        ]
        await until(lambda: app.under_way == 4)
        for caller, size in (("ana", 1), ("bob", 1), ("key 1", 501)):
            reply = await server.ask(asking(caller, b"a" * size, declared=declared, method="POST"))
            assert (reply.status, reply.json["code"]) == (429, "RATE_LIMITED")
            assert "bytes of bodies and answers under way" in reply.json["detail"]
        app.go.set()
        assert [reply.status for reply in await asyncio.gather(*waiting)] == [200] * 4
        await until(limits.under_way.is_empty)
        # One alone is bounded by its own limit.
        assert (await server.ask(asking("ana", b"a" * 5_000, declared=declared, method="POST"))).status == 200


async def test_an_account_has_so_many_bytes_of_answers_under_way() -> None:
    app = Shop(LARGE)
    app.go.set()
    async with shop(app, account_bytes=LARGE + 10, write_s=60.0) as (server, limits):
        async with deaf(server):
            await until(lambda: limits.under_way.count("account ana", "bytes") == LARGE)
            reply = await server.ask(asking("ana"))
            assert (reply.status, reply.json["code"]) == (429, "RATE_LIMITED")
            async with server.connected() as wire:
                # What has changed something is told in any case.
                await wire.send(asking("ana", b"a", method="POST"))
                assert (await head(wire)).startswith(b"HTTP/1.1 200")
            async with server.connected() as wire:
                await wire.send(asking("bob"))
                assert (await head(wire)).startswith(b"HTTP/1.1 200")
        await until(limits.under_way.is_empty)


async def head(wire: Wire) -> bytes:
    async with asyncio.timeout(20):
        return await wire.reader.readuntil(b"\r\n\r\n")
