"""The two drivers on real sockets: the same flows, the same ends; and where the token goes, and where it never does."""

import asyncio
import logging
import socket
import ssl
import traceback
from collections import UserDict
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ficha import EventView, JobView, NotFound, Refused
from ficha.client import AsyncClient, Client, Retries, ServerError, Unreachable
from tests.client.flow_driver import JOB_ID, account, credited, event, hold, job, receipt
from tests.client.scripted_server import HANG_UP, http, live, wire

TOKEN = "ficha_user_CANARYcanaryCANARYcanary"  # noqa: S105 (made up)
QUICK = Retries(backoff_s=0.001, backoff_max_s=0.001)
RECEIPT = http(201, msgspec.json.encode(receipt()))
JOB = http(200, msgspec.json.encode(job()))

Call = Callable[..., Any]


@pytest.fixture(params=["Client", "AsyncClient"])
def call(request: pytest.FixtureRequest) -> Call:
    """Calls one operation of a client of each kind."""

    def plain(url: str, name: str, *args: Any, retries: Retries = QUICK, **kwargs: Any) -> Any:
        with Client(url, TOKEN, retries=retries) as client:
            return getattr(client, name)(*args, **kwargs)

    def awaited(url: str, name: str, *args: Any, retries: Retries = QUICK, **kwargs: Any) -> Any:
        async def run() -> Any:
            async with AsyncClient(url, TOKEN, retries=retries) as client:
                return await getattr(client, name)(*args, **kwargs)

        return asyncio.run(run())

    return plain if request.param == "Client" else awaited


def watch(kind: str, url: str) -> list[Any]:
    if kind == "Client":
        with Client(url, TOKEN, retries=QUICK) as client:
            return list(client.watch(JOB_ID))

    async def run() -> list[Any]:
        async with AsyncClient(url, TOKEN, retries=QUICK) as client:
            return [item async for item in client.watch(JOB_ID)]

    return asyncio.run(run())


@pytest.mark.req("C5")
def test_a_submit_survives_a_server_that_hangs_up(call: Call) -> None:
    with wire(HANG_UP, http(503, b"", "text/html"), RECEIPT) as server:
        found = call(server.url, "submit", "draw", {"prompt": "çat"}, account="ana")
    assert (found.job_id, found.new_balance) == (JOB_ID, 95)
    assert (found.rate.limit, found.rate.left, found.rate.resets_s) == (10, 9, 60)
    assert len(set(server.bodies)) == 1
    body = msgspec.json.decode(server.bodies[0])
    assert (body["tool"], body["payload"], body["account"]) == ("draw", {"prompt": "çat"}, "ana")
    assert all(f"Authorization: Bearer {TOKEN}\r\n" in head for head in server.requests)
    assert all(head.startswith("POST /api/jobs HTTP/1.1") for head in server.requests)


def test_what_may_have_been_done_is_not_sent_twice(call: Call) -> None:
    with wire(HANG_UP, http(201, msgspec.json.encode(hold()))) as server, pytest.raises(Unreachable) as told:
        call(server.url, "reserve")
    assert len(server.requests) == 1
    assert (told.value.reached, told.value.carried_out) == (True, "perhaps")


def test_a_server_that_is_not_there_is_named(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(Unreachable, match=f"the server at {url} does not answer") as told:
        call(url, "reserve", retries=Retries(tries=3, backoff_s=0.001))
    assert told.value.carried_out == "no"


def test_a_refusal_reads_as_in_process(call: Call) -> None:
    problem = {"code": "NOT_FOUND", "detail": f"there is no job {JOB_ID}.", "retryable": False, "status": 404}
    answer = http(404, msgspec.json.encode(problem), "application/problem+json")
    with wire(answer) as server, pytest.raises(NotFound) as told:
        call(server.url, "job", JOB_ID)
    assert str(told.value) == f"there is no job {JOB_ID}."


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_a_stream_is_followed_over_the_wire_and_taken_up_again(kind: str) -> None:
    def told(number: int) -> bytes:
        return f"id: {number}\nevent: log\n".encode() + b"data: " + msgspec.json.encode(event(number)) + b"\n\n"

    end = b"event: end\ndata: " + msgspec.json.encode(job("completed")) + b"\n\n"
    with wire(live(told(1) + told(2)), live(told(3) + end)) as server:
        found = watch(kind, server.url)
    assert [item.number for item in found if isinstance(item, EventView)] == [1, 2, 3]
    assert isinstance(found[-1], JobView)
    assert ["last-event-id: 0" in server.requests[0].lower(), "last-event-id: 2" in server.requests[1].lower()] == [
        True
    ] * 2


def test_a_watch_that_is_left_closes_its_stream() -> None:
    with wire(live(b"id: 1\ndata: " + msgspec.json.encode(event(1)) + b"\n\n")) as server:
        with Client(server.url, TOKEN) as client:
            watching = client.watch(JOB_ID)
            assert next(watching).number == 1
            watching.close()

        async def run() -> None:
            async with AsyncClient(server.url, TOKEN) as client, aclosing(client.watch(JOB_ID)) as watching:
                assert (await anext(watching)).number == 1

        server.replies.append(live(b"id: 1\ndata: " + msgspec.json.encode(event(1)) + b"\n\n"))
        asyncio.run(run())


def test_a_redirect_takes_the_token_nowhere(call: Call) -> None:
    with wire(JOB) as elsewhere, wire(http(307, Location=f"{elsewhere.url}/api/jobs/{JOB_ID}")) as server:
        with pytest.raises(ServerError, match="leads elsewhere"):
            call(server.url, "job", JOB_ID)
        assert elsewhere.requests == []


def test_the_token_is_in_no_repr_log_or_error(call: Call, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown = [repr(Client("http://ficha.test", TOKEN)), str(AsyncClient("http://ficha.test", TOKEN))]
    with wire(HANG_UP, http(500), http(200, b"?"), http(401, b"no", "text/plain")) as server:
        for operation in ("reserve", "reserve", "account", "account"):
            with pytest.raises((Refused, ServerError)) as told:
                call(server.url, operation)
            cause: BaseException | None = told.value
            while cause is not None:
                shown += [repr(cause), str(vars(cause))]
                assert not isinstance(cause, httpx.HTTPError), "it would drag the request along"
                cause = cause.__cause__ or cause.__context__
            shown += traceback.format_exception(told.value)
    assert len(server.requests) == 4
    shown += [record.getMessage() + str(record.__dict__) for record in caplog.records]
    assert shown[0] == "Client('http://ficha.test')"
    assert not [text for text in shown if "CANARY" in text]


@pytest.mark.parametrize("token", ["with space", "zwei\nzeilen", "ütf", "nul\0", "x\r\nX-Evil: 1"])
def test_a_token_that_cannot_be_sent_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ValueError, match="check FICHA_TOKEN") as told:
        Client("http://ficha.test", token)
    assert token not in str(told.value)


@pytest.mark.parametrize("url", ["", "ficha.test", "ftp://ficha.test", "http://", "sqlite:///ficha.db"])
def test_what_is_no_server_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FICHA_URL", raising=False)
    with pytest.raises(ValueError, match="URL"):
        Client(url)


def test_a_password_in_the_url_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="FICHA_TOKEN") as told:
        Client("https://me:hunter2@ficha.test")
    assert "hunter2" not in str(told.value)


def test_the_environment_says_where_and_who(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with wire(http(200, msgspec.json.encode(account()))) as server:
        monkeypatch.setenv("FICHA_URL", f"{server.url}/below/")
        monkeypatch.setenv("FICHA_TOKEN", "from-the-environment\n")
        with Client() as client:
            assert client.account().id == "ana"
    assert "GET /below/api/account HTTP/1.1" in server.requests[0]
    assert "Authorization: Bearer from-the-environment\r\n" in server.requests[0]


def test_names_arrive_as_they_are(call: Call) -> None:
    answers = [http(200, msgspec.json.encode(credited())), http(200, msgspec.json.encode(account()))]
    names = ("a/b", "..", "ü ?#%2F", "x&y=z")
    with wire(*answers * 4) as server:
        for name in names:
            call(server.url, "grant", name, 5, reason="r", key="k")
            call(server.url, "account", name)
    paths = [head.split(" ")[1] for head in server.requests]
    assert paths[0::2] == [
        f"/api/admin/accounts/{name}/grant" for name in ("a%2Fb", "%2E%2E", "%C3%BC%20%3F%23%252F", "x%26y%3Dz")
    ]
    assert [dict(httpx.QueryParams(path.partition("?")[2])) for path in paths[1::2]] == [{"account": n} for n in names]


def test_an_untrusted_certificate_is_an_error_at_once(call: Call, tmp_path: Path) -> None:
    words = "no certificate that is trusted here: self-signed"
    with wire(JOB, tls=_own_certificate(tmp_path)) as server, pytest.raises(ServerError, match=words) as told:
        call(server.url, "job", JOB_ID, retries=Retries())
    assert not isinstance(told.value, Unreachable)
    assert server.requests == []


def _own_certificate(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1)
    ).sign(key, hashes.SHA256())
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "own.pem").write_bytes(pem + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own.pem")
    return context


@pytest.mark.parametrize(
    "payload", [{"x": float("nan")}, {"x": object()}, {1: "x"}, {"x": datetime.now(UTC)}, {"x": 2**60}, [1]]
)
def test_a_payload_that_is_not_json_is_refused_before_it_is_sent(call: Call, payload: Any) -> None:
    with wire() as server, pytest.raises(Refused) as told:
        call(server.url, "submit", "draw", payload)
    assert (told.value.code, server.requests) == ("INVALID_PAYLOAD", [])


def test_a_payload_may_be_any_mapping(call: Call) -> None:
    with wire(RECEIPT, RECEIPT) as server:
        call(server.url, "submit", "draw", MappingProxyType({"prompt": "cat"}))
        call(server.url, "submit_batch", [("draw", UserDict(prompt="cat"))])
    one, many = map(msgspec.json.decode, server.bodies)
    assert (one["payload"], many["items"][0]["payload"]) == ({"prompt": "cat"}, {"prompt": "cat"})


async def test_arguments_are_judged_where_the_call_is_awaited() -> None:
    async with AsyncClient("http://ficha.test") as client:
        asked = client.job("nonsense")
        with pytest.raises(NotFound):
            await asked


def test_times_are_as_in_process(call: Call) -> None:
    with wire(RECEIPT, RECEIPT) as server:
        call(server.url, "submit", "draw", run_at=datetime(2030, 1, 2, 3, 4, 5))
        call(server.url, "submit", "draw", run_at=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))
        with pytest.raises(Refused, match="run_at must be a datetime"):
            call(server.url, "submit", "draw", run_at="tomorrow")
    assert [msgspec.json.decode(body)["run_at"] for body in server.bodies] == ["2030-01-02T03:04:05Z"] * 2
