"""Bodies that are too large or too slow, on a real socket."""

import asyncio
import tracemalloc
from itertools import repeat

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from ficha.server.limits import BodyLimits
from ficha.server.settings import Settings
from tests.server.raw_http import Behind, behind

SECRET = "TgYQ3MvH0sTzB5kqjXw1c9fRrL8uZeNd"  # noqa: S105 (for the tests alone)
LIMITS = Settings(secret=SECRET, body_bytes=1_000, batch_body_bytes=5_000, body_s=20)
HASTY = Settings(secret=SECRET, body_bytes=1_000, batch_body_bytes=5_000, body_s=0.3)


async def reads(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await JSONResponse({"bytes": len(body)})(scope, receive, send)


async def converts(scope: Scope, receive: Receive, send: Send) -> None:
    """As frameworks do: whatever goes wrong while a body is read becomes an answer of their own."""
    try:
        await reads(scope, receive, send)
    except Exception:
        await JSONResponse({"detail": "There was an error parsing the body"}, 400)(scope, receive, send)


def post(length: int, path: str = "/api/jobs") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()


def chunked(path: str = "/api/jobs") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


def chunk(size: int) -> bytes:
    return b"%x\r\n%b\r\n" % (size, b"a" * size)


@pytest.fixture(params=[reads, converts])
async def server(request: pytest.FixtureRequest):
    async with behind(BodyLimits(request.param, LIMITS)) as found:
        yield found


@pytest.fixture(params=[reads, converts])
async def hasty(request: pytest.FixtureRequest):
    """A server that waits for no body for long."""
    async with behind(BodyLimits(request.param, HASTY)) as found:
        yield found


async def test_a_body_of_the_largest_size_passes(server: Behind) -> None:
    assert (await server.ask(post(1_000), b"a" * 1_000)).json == {"bytes": 1_000}
    assert (await server.ask(chunked(), chunk(400), chunk(600), b"0\r\n\r\n")).json == {"bytes": 1_000}


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(server: Behind) -> None:
    reply = await server.ask(post(1_001))
    assert (reply.status, reply.json["code"], reply.json["retryable"]) == (413, "TOO_LARGE", False)
    assert "1000 bytes" in reply.json["detail"]


async def test_a_body_that_becomes_too_large_is_refused_then(server: Behind) -> None:
    assert (await server.ask(chunked(), chunk(600), chunk(600))).json["code"] == "TOO_LARGE"


@pytest.mark.parametrize(("path", "most"), [("/api/batches", 5_000), ("/api/batches/x/cancel", 1_000), ("/", 1_000)])
async def test_only_a_batch_may_be_larger(server: Behind, path: str, most: int) -> None:
    assert (await server.ask(post(most, path), b"a" * most)).json == {"bytes": most}
    assert (await server.ask(post(most + 1, path))).status == 413


async def test_a_batch_is_known_also_where_the_application_is_mounted() -> None:
    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        await BodyLimits(reads, LIMITS)({**scope, "root_path": "/queue"}, receive, send)

    async with behind(mounted) as server:
        assert (await server.ask(post(5_000, "/queue/api/batches"), b"a" * 5_000)).status == 200
        assert (await server.ask(post(5_000, "/api/batches"))).status == 413


async def test_a_body_that_does_not_arrive_in_time_gets_408(hasty: Behind) -> None:
    reply = await hasty.ask(post(100), b"a" * 99)
    assert (reply.status, reply.json["code"]) == (408, "TIMEOUT")
    assert "0.3 s" in reply.json["detail"]


async def test_a_body_that_trickles_gets_408_however_lively_it_trickles(hasty: Behind) -> None:
    async with hasty.connected() as wire:
        await wire.send(post(1_000))

        async def trickle() -> None:
            for _ in range(1_000):
                await wire.send(b"a")
                await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        assert (await wire.reply()).status == 408
        trickling.cancel()
        await asyncio.gather(trickling, return_exceptions=True)


async def test_a_caller_who_asks_first_is_told_before_sending(server: Behind) -> None:
    ask = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    assert (await server.ask(ask % 1_001)).status == 413
    async with server.connected() as wire:
        await wire.send(ask % 5)
        assert (await wire.reply()).status == 100
        await wire.send(b"hello")
        assert (await wire.reply()).json == {"bytes": 5}


async def test_whoever_listens_for_the_end_after_the_body_is_not_timed() -> None:
    heard = asyncio.Event()

    async def listens(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await request.body()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})
        assert await receive() == {"type": "http.disconnect"}
        heard.set()

    async with behind(BodyLimits(listens, HASTY)) as server:
        async with server.connected() as wire:
            await wire.send(post(5), b"hello")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2 * HASTY.body_s):
                    await heard.wait()
        async with asyncio.timeout(20):
            await heard.wait()


async def test_an_error_of_the_application_itself_is_left_to_others() -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        raise LookupError("not of the body")

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"hello", "more_body": False}

    async def send(message: object) -> None:
        raise AssertionError("nothing was to be said")

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-length", b"5")]}
    with pytest.raises(LookupError):
        await BodyLimits(fails, LIMITS)(scope, receive, send)


async def test_nothing_is_kept_of_a_body_that_is_too_large() -> None:
    async with behind(BodyLimits(reads, LIMITS)) as server, server.connected() as wire:
        await server.ask(post(0))
        tracemalloc.start()
        try:
            await wire.send(chunked(), *repeat(chunk(65_536), 160))
            assert (await wire.reply()).status == 413
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 4 * 2**20
