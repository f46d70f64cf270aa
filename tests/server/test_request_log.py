"""What every answer has, what the log says of a request, and what it never says."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ficha.server.request_log import RequestLog
from tests.server.raw_http import behind

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
CANARY = "sk_live_CANARY0123456789abcdef"


async def hello(request: Request) -> Response:
    request.state.caller_name = "key ficha_user_abc123"
    return JSONResponse({"id": request.state.correlation_id})


async def own_headers(request: Request) -> Response:
    return Response(headers={"Cache-Control": "private, no-cache", "Content-Security-Policy": "sandbox"})


async def broken(request: Request) -> Response:
    body = await request.body()
    try:
        json.loads(body)
    except ValueError as error:
        raise RuntimeError(f"cannot read {body!r}") from error
    raise AssertionError


async def streamed(request: Request) -> Response:
    async def parts() -> AsyncIterator[bytes]:
        yield b"a" * 10
        await request.app.state.released.wait()
        yield b"b" * 5

    return StreamingResponse(parts())


async def breaks_off(request: Request) -> Response:
    async def parts() -> AsyncIterator[bytes]:
        yield b"a"
        raise RuntimeError(CANARY)

    return StreamingResponse(parts())


async def stuck(request: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError


def application(**options: bool) -> Starlette:
    app = Starlette(
        routes=[
            Route("/", hello),
            Route("/healthz", hello),
            Route("/own", own_headers),
            Route("/broken", broken, methods=["POST"]),
            Route("/streamed", streamed),
            Route("/breaks-off", breaks_off),
            Route("/stuck", stuck),
        ]
    )
    app.state.released = asyncio.Event()
    app.add_middleware(RequestLog, **options)
    return app


def client(app: Starlette, url: str = "http://server") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=url)


Lines = Callable[[], list[logging.LogRecord]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """What the server has logged so far."""
    caplog.set_level(logging.INFO)
    return lambda: [line for line in caplog.records if line.name == "ficha.server"]


async def test_every_answer_has_the_headers_that_keep_browsers_from_guessing() -> None:
    async with client(application()) as http:
        for path in ("/", "/nothing"):
            headers = (await http.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert "strict-transport-security" not in headers


async def test_what_an_answer_says_itself_stands() -> None:
    async with client(application()) as http:
        headers = (await http.get("/own")).headers
    assert headers.get_list("cache-control") == ["private, no-cache"]
    assert headers.get_list("content-security-policy") == ["sandbox"]


async def test_https_is_to_be_kept_only_where_it_was_used() -> None:
    async with client(application(), "https://server") as http:
        assert (await http.get("/")).headers["strict-transport-security"] == "max-age=31536000"


async def test_pages_of_other_origins_may_read_answers_only_where_that_was_set() -> None:
    async with client(application(has_cors=True)) as http:
        assert "cross-origin-resource-policy" not in (await http.get("/")).headers


@pytest.mark.parametrize("given", ["a", "Order-42_b.c~d", "x" * 128])
async def test_a_correlation_id_goes_through_to_the_log(given: str, lines: Lines) -> None:
    async with client(application()) as http:
        answer = await http.get("/", headers={"X-Correlation-ID": given})
    assert answer.json()["id"] == answer.headers["x-correlation-id"] == lines()[0].correlation_id == given


@pytest.mark.parametrize("given", [None, "", "x" * 129, "a b", "a\tb", 'a"b', "ü", "a=b", "a;b"])
async def test_a_correlation_id_that_is_no_plain_name_is_replaced(given: str | None) -> None:
    headers = {} if given is None else {"X-Correlation-ID": given.encode("latin-1")}
    async with client(application()) as http:
        assert UUID.fullmatch((await http.get("/", headers=headers)).headers["x-correlation-id"])


async def test_a_request_is_one_line_with_what_one_asks_the_log_for(lines: Lines) -> None:
    async with client(application()) as http:
        answer = await http.get(f"/?token={CANARY}", headers={"Authorization": f"Bearer {CANARY}", "X-Other": CANARY})
    [line] = lines()
    assert (line.levelname, line.message) == ("INFO", "request")
    assert (line.method, line.path, line.status, line.caller) == ("GET", "/", 200, "key ficha_user_abc123")
    assert line.bytes == len(answer.content)
    assert 0 <= line.duration_ms < 5_000
    assert CANARY not in str(vars(line))


async def test_the_line_names_the_trace_that_the_request_belongs_to(lines: Lines) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with client(application()) as http:
        await http.get("/", headers={"traceparent": parent})
        await http.get("/")
    assert [line.trace_id for line in lines()] == [parent[3:35], None]


@pytest.mark.parametrize(
    "path", [f"/jobs/{CANARY}", "/a/%0Aforged%20line", "/%1b%5b31m", "/" + "a/" * 4_000, "/Ünicode"]
)
async def test_what_callers_write_into_an_address_is_not_written_into_the_log(path: str, lines: Lines) -> None:
    async with client(application()) as http:
        await http.get(path)
    [shown] = [line.path for line in lines()]
    assert re.fullmatch(r"[a-z/…-]{1,300}", shown), shown


async def test_ids_in_an_address_are_shown(lines: Lines) -> None:
    path = "/api/jobs/0193e6a4-5b3c-7d2e-8f10-123456789abc/cancel"
    async with client(application()) as http:
        await http.get(path)
    assert [line.path for line in lines()] == [path]


async def test_probes_are_logged_only_for_whoever_asks_for_everything(
    lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    async with client(application()) as http:
        await http.get("/healthz")
        assert lines() == []
        caplog.set_level(logging.DEBUG)
        await http.get("/healthz")
        assert [line.levelname for line in lines()] == ["DEBUG"]


async def test_what_goes_wrong_is_answered_with_words_and_logged_with_its_place_but_without_its_words(
    lines: Lines,
) -> None:
    async with client(application()) as http:
        answer = await http.post("/broken", content=CANARY)
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert answer.json()["code"] == "INTERNAL"
    assert answer.json()["correlation_id"] == answer.headers["x-correlation-id"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    [line] = lines()
    assert (line.levelname, line.message, line.error, line.status) == ("ERROR", "request failed", "RuntimeError", 500)
    assert line.correlation_id == answer.headers["x-correlation-id"]
    assert "json.decoder.JSONDecodeError" in line.traceback
    assert "test_request_log.py" in line.traceback
    assert CANARY not in answer.text
    assert CANARY not in str(vars(line))


async def test_a_stream_is_logged_when_it_ends(lines: Lines) -> None:
    app = application()
    async with client(app) as http:
        asked = asyncio.create_task(http.get("/streamed"))
        await asyncio.sleep(0)
        assert lines() == []
        app.state.released.set()
        await asked
    assert [line.bytes for line in lines()] == [15]


async def test_a_stream_that_breaks_off_is_logged_as_an_error_and_not_answered_twice(lines: Lines) -> None:
    async with behind(application()) as server, server.connected() as wire:
        await wire.send(b"GET /breaks-off HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await wire.end()).endswith(b"\r\n\r\n1\r\na\r\n")
    [line] = lines()
    assert (line.levelname, line.status) == ("ERROR", 200)
    assert CANARY not in str(vars(line))


async def test_a_caller_who_leaves_in_the_middle_of_a_body_is_no_error(lines: Lines) -> None:
    async with behind(application()) as server:
        async with server.connected() as wire:
            await wire.send(b"POST /broken HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel")
        async with asyncio.timeout(20):
            while not lines():  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)
    [line] = lines()
    assert (line.levelname, line.status) == ("INFO", None)


async def test_a_request_that_is_cut_off_is_told_that_it_may_be_repeated(lines: Lines) -> None:
    said: list[dict] = []

    async def send(message: dict) -> None:
        said.append(message)

    async def receive() -> dict:
        return await asyncio.get_running_loop().create_future()

    scope = {"type": "http", "method": "GET", "path": "/stuck", "headers": [], "scheme": "http", "query_string": b""}
    running = asyncio.create_task(application()(scope, receive, send))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert said[0]["status"] == 503
    told = json.loads(said[1]["body"])
    assert (told["code"], told["retryable"]) == ("OVERLOADED", True)
    assert [line.status for line in lines()] == [503]
