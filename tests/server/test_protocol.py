"""What arrives at the socket before it is a request: too much, too slow, or not HTTP at all."""

import asyncio
import logging
import time
from collections.abc import Iterator
from itertools import repeat

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from tests.server.raw_http import behind

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Tells what arrived, once it is whole."""
    request = Request(scope, receive)
    body = await request.body()
    told = {"bytes": len(body), "headers": sorted(request.headers), "path": request.url.path}
    await JSONResponse(told)(scope, receive, send)


async def deaf(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without looking at the body."""
    await Response("no", 401)(scope, receive, send)


def flood(chunk: bytes, most: int) -> Iterator[bytes]:
    return repeat(chunk, most // len(chunk))


async def test_a_request_of_usual_size_passes_and_the_connection_is_kept() -> None:
    async with behind(echo) as server, server.connected() as wire:
        for _ in range(3):
            await wire.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
            reply = await wire.reply()
            assert (reply.status, reply.json["bytes"], reply.json["path"]) == (200, 5, "/a")
        assert "date" in reply.headers
        assert "server" not in reply.headers


@pytest.mark.parametrize(
    "head",
    [
        GET + b"X-Large: " + b"a" * 5_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 5_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        GET + b"".join(b"X-%d: 1\r\n" % number for number in range(100)) + b"\r\n",
    ],
    ids=["a large header", "a long address", "many fields"],
)
async def test_headers_beyond_the_limit_get_431_and_the_connection_ends(head: bytes) -> None:
    async with behind(echo, most=4_096) as server, server.connected() as wire:
        await wire.send(head)
        reply = await wire.reply()
        assert reply.status == 431
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.headers["connection"] == "close"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.json["code"] == "HEADERS_TOO_LARGE"
        assert reply.json["correlation_id"] == reply.headers["x-correlation-id"]
        assert "4096" in reply.json["detail"]
        assert await wire.end() == b""


async def test_headers_just_within_the_limits_pass() -> None:
    fields = b"".join(b"X-%03d: 1\r\n" % number for number in range(99))
    async with behind(echo, most=4_096) as server:
        assert (await server.ask(GET + fields + b"\r\n")).status == 200
        assert (await server.ask(GET + b"X-Large: " + b"a" * 4_000 + b"\r\n\r\n")).status == 200


@pytest.mark.parametrize("part", [b"a" * 8_192, b"X-Field: 1\r\n" * 512], ids=["one endless field", "endless fields"])
async def test_a_flood_of_headers_is_cut_off_while_it_flows(part: bytes) -> None:
    async with behind(echo, most=4_096) as server, server.connected() as wire:
        await wire.send(GET, b"X-Flood: ")
        with pytest.raises((ConnectionError, TimeoutError)):
            async with asyncio.timeout(10):
                await wire.send(*flood(part, 2**30))
        assert (await server.ask(GET + b"\r\n")).status == 200


async def test_a_flood_is_told_why_it_was_cut_off() -> None:
    async with behind(echo, most=4_096) as server, server.connected() as wire:
        await wire.send(GET, b"X-Flood: ", *flood(b"a" * 8_192, 2**20))
        assert (await wire.reply()).json["code"] == "HEADERS_TOO_LARGE"


@pytest.mark.parametrize(
    "tail", [b"0\r\nX-Trailer: " + b"a" * 8_192, b"1;" + b"a" * 8_192], ids=["trailers", "chunk extensions"]
)
async def test_what_stands_around_a_body_is_bounded_too(tail: bytes) -> None:
    async with behind(echo, most=4_096) as server, server.connected() as wire:
        await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", tail)
        await wire.send(*flood(b"a" * 8_192, 2**20))
        assert (await wire.reply()).status == 431


async def test_a_body_in_pieces_of_one_byte_passes() -> None:
    async with behind(echo, most=4_096) as server, server.connected() as wire:
        await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        await wire.send(*flood(b"1\r\na\r\n" * 500, 600_000), b"0\r\n\r\n")
        assert (await wire.reply()).json["bytes"] == 100_000


async def test_the_parts_of_a_body_are_put_together_once() -> None:
    """However small they are: each would otherwise be a copy of all that came before."""
    async with behind(echo) as server, server.connected() as wire:
        await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        connections = server.server.server_state.connections
        while not any(connection.cycle for connection in connections):  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0)
        [connection] = connections
        began = time.thread_time()
        connection.data_received(b"1\r\na\r\n" * 150_000)
        assert time.thread_time() - began < 1
        await wire.send(b"0\r\n\r\n")
        assert (await wire.reply()).json["bytes"] == 150_000


async def test_fields_after_the_body_are_no_headers() -> None:
    body = b"5\r\nhello\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
    async with behind(echo) as server, server.connected() as wire:
        await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
        assert (await wire.reply()).json == {"bytes": 5, "headers": ["host", "transfer-encoding"], "path": "/"}
        await wire.send(GET + b"\r\n")
        assert (await wire.reply()).json["headers"] == ["host"]


async def test_a_silent_caller_is_closed() -> None:
    async with behind(echo, within_s=0.2) as server, server.connected() as wire:
        assert await wire.end() == b""


async def test_headers_that_trickle_in_are_answered_with_408_however_lively_they_trickle() -> None:
    async with behind(echo, within_s=1) as server, server.connected() as wire:

        async def trickle() -> None:
            for byte in GET + b"X-Slow: " + b"a" * 10_000:
                await wire.send(bytes([byte]))
                await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        reply = await wire.reply()
        assert (reply.status, reply.json["code"]) == (408, "TIMEOUT")
        trickling.cancel()
        await asyncio.gather(trickling, return_exceptions=True)
        assert await wire.end() == b""


async def test_a_second_request_is_timed_from_its_first_byte() -> None:
    async with behind(echo) as server, server.connected() as wire:
        await wire.send(GET + b"\r\n")
        assert (await wire.reply()).status == 200
        server.protocol.header_s = 0.1
        await wire.send(b"GET /again")
        assert (await wire.reply()).status == 408
        assert await wire.end() == b""


async def test_blank_lines_between_requests_do_not_hold_a_connection() -> None:
    async with behind(echo, keep_alive_s=60) as server, server.connected() as wire:
        await wire.send(GET + b"\r\n")
        assert (await wire.reply()).status == 200
        server.protocol.header_s = 0.1
        await wire.send(b"\r\n")
        assert await wire.end() == b""


async def test_an_idle_connection_is_closed_by_its_own_timer_and_not_by_that_of_the_headers() -> None:
    async def hurries(scope: Scope, receive: Receive, send: Send) -> None:
        server.protocol.header_s = 0.1  # The headers of this request have arrived.
        await echo(scope, receive, send)

    async with behind(hurries, keep_alive_s=1) as server, server.connected() as wire:
        await wire.send(GET + b"\r\n")
        assert (await wire.reply()).status == 200
        began = asyncio.get_running_loop().time()
        assert await wire.end() == b""
        assert asyncio.get_running_loop().time() - began > 0.8


async def test_an_answer_that_takes_long_is_not_timed() -> None:
    released = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        server.protocol.header_s = 0.02
        await released.wait()
        await Response("done")(scope, receive, send)

    async with behind(slow) as server, server.connected() as wire:
        await wire.send(GET + b"\r\n", b"GET /second HTTP/1.1\r\nHo")
        # The second request's head is in the kernel or with the parser; either way nobody reads on, for far longer
        # than the head may take.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await wire.reader.readexactly(1)
        released.set()
        assert (await wire.reply()).body == b"done"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HELLO\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /?a=\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nhOST: y\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: user@x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x:y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[-50:]),
)
async def test_what_is_not_http_gets_400(sent: bytes) -> None:
    async with behind(echo) as server, server.connected() as wire:
        await wire.send(sent)
        reply = await wire.reply()
        assert (reply.status, reply.json["status"]) == (400, 400)
        assert reply.json["code"] == "INVALID_REQUEST"
        assert await wire.end() == b""
        assert (await server.ask(GET + b"\r\n")).status == 200


@pytest.mark.parametrize(
    "host", [b"x", b"x:80", b"127.0.0.1:8000", b"[::1]:8000", b"xn--bcher-kva.example", b"a_b.c", b""]
)
async def test_a_host_may_be_a_name_or_an_address_with_a_port(host: bytes) -> None:
    async with behind(echo) as server:
        assert (await server.ask(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")).status == 200


async def test_http_1_0_needs_no_host() -> None:
    async with behind(echo) as server:
        assert (await server.ask(b"GET / HTTP/1.0\r\n\r\n")).status == 200


async def test_garbage_behind_a_request_is_not_taken_for_its_answer() -> None:
    released = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await released.wait()
        await Response("done")(scope, receive, send)

    async with behind(slow) as server, server.connected() as wire:
        await wire.send(GET + b"\r\nGARBAGE\r\n\r\n")
        assert await wire.end() == b""
        released.set()


async def test_a_body_that_is_malformed_ends_the_wait_for_it() -> None:
    heard = asyncio.get_running_loop().create_future()

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await Request(scope, receive).body()
        except ClientDisconnect as error:
            heard.set_result(error)

    async with behind(waiting) as server:
        reply = await server.ask(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", b"zz\r\n"
        )
        assert reply.status == 400
        async with asyncio.timeout(20):
            assert isinstance(await heard, ClientDisconnect)


async def test_an_early_answer_is_read_by_a_caller_who_is_still_sending() -> None:
    """Closed at once, the connection would be reset under the caller, and the answer lost."""
    async with behind(deaf) as server, server.connected() as wire:
        await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n")
        await wire.send(*flood(b"a" * 65_536, 3_900_000))
        assert (await wire.reply()).status == 401


async def test_a_body_that_nobody_reads_is_waited_for_only_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ficha.server.protocol.LINGER_S", 0.2)
    async with behind(deaf, keep_alive_s=60) as server, server.connected() as wire:
        await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
        assert (await wire.reply()).status == 401
        await wire.send(b"a")
        assert await wire.end() == b""


async def test_a_connection_goes_on_when_the_body_arrives_after_the_answer() -> None:
    async with behind(deaf, keep_alive_s=1) as server, server.connected() as wire:
        for _ in range(2):
            await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
            assert (await wire.reply()).status == 401
            await wire.send(b"hello")
        assert await wire.end() == b""


@pytest.mark.parametrize("name", [b"Upgrade", b"upgrade", b"UPGRADE"])
async def test_a_wish_for_another_protocol_is_passed_over_and_the_body_is_read(name: bytes) -> None:
    wish = b"Connection: Upgrade, HTTP2-Settings\r\n" + name + b": h2c\r\nHTTP2-Settings: AAM\r\n"
    async with behind(echo) as server, server.connected() as wire:
        for _ in range(2):
            await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\n" + wish + b"Content-Length: 12\r\n\r\n\r\nUpgrade: x")
            reply = await wire.reply()
            assert (reply.status, reply.json["bytes"]) == (200, 12)


async def test_a_wish_for_another_protocol_that_came_in_two_parts_is_refused_and_not_half_understood() -> None:
    async with behind(echo) as server, server.connected() as wire:
        await wire.send(GET + b"Connection: Upgrade\r\nUpgr")
        connections = server.server.server_state.connections
        while not any(connection.headers for connection in connections):  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0)
        await wire.send(b"ade: websocket\r\n\r\n")
        assert (await wire.reply()).status == 400


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with behind(echo) as server, server.connected() as wire:
        await wire.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(20)))
        assert [(await wire.reply()).json["path"] for _ in range(20)] == [f"/{number}" for number in range(20)]


async def test_many_who_dawdle_do_not_keep_others_waiting() -> None:
    async with behind(echo, within_s=5) as server:
        idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(300)]
        for _, writer in idle:
            writer.write(GET + b"X-Slow: ")
        began = asyncio.get_running_loop().time()
        assert (await server.ask(GET + b"\r\n")).status == 200
        assert asyncio.get_running_loop().time() - began < 4.5
        for _, writer in idle:
            writer.close()


async def test_a_refusal_is_logged_without_what_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with behind(echo, most=4_096) as server:
        reply = await server.ask(GET + b"Authorization: Bearer CANARY" + b"a" * 5_000 + b"\r\n\r\n")
    [line] = [record for record in caplog.records if record.name == "ficha.server"]
    assert (line.message, line.status, line.correlation_id) == (
        "request refused",
        431,
        reply.headers["x-correlation-id"],
    )
    assert "CANARY" not in caplog.text
    assert not any("CANARY" in str(vars(record)) for record in caplog.records)
