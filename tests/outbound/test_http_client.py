"""The client of all outgoing calls: bounded in number, time and bytes, and it dials what it checked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpcore
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ficha.outbound import ForbiddenAddress, Outbound, OutboundError
from tests.outbound.dialled import dialled
from tests.support.receiver import Received, Receiver, Reply
from tests.support.waiting import until

LOOPBACK = ("127.0.0.0/8",)
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class ChangingNames:
    """A name server that answers each question with the next of its answers."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class NoOutside(httpcore.AnyIOBackend):
    """Opens real sockets to this machine; whatever lies outside cannot be reached from a test."""

    def __init__(self) -> None:
        self.dialled: list[str] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's signature)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        self.dialled.append(host)
        if not host.startswith("127."):
            raise httpcore.ConnectError("unreachable")
        return await super().connect_tcp(host, port, timeout, local_address, socket_options)


async def test_a_name_that_changes_its_answer_is_dialled_where_it_was_checked() -> None:
    """A check and a call that each resolve would be told a public address, then this machine's."""
    async with Receiver() as receiver:
        names, network = ChangingNames(["93.184.216.34"], ["127.0.0.1"]), NoOutside()
        outbound = Outbound(resolve=names, network=network)
        with dialled() as addresses, pytest.raises(OutboundError) as failed:
            await outbound.request("GET", f"https://rebinding.example:{receiver.port}/")
        assert (names.asked, network.dialled, addresses) == (1, ["93.184.216.34"], [])
        assert not isinstance(failed.value, ForbiddenAddress)
        assert failed.value.was_sent is False
        with dialled() as addresses, pytest.raises(ForbiddenAddress):
            await outbound.request("GET", f"https://rebinding.example:{receiver.port}/")
        assert (names.asked, addresses, receiver.connections) == (2, [], 0)
        await outbound.close()


async def test_the_next_address_of_a_name_is_tried_and_all_were_checked() -> None:
    async with Receiver() as receiver:
        network = NoOutside()
        outbound = Outbound(
            ("127.0.0.0/8", "93.184.216.0/24"), resolve=ChangingNames(["93.184.216.34", "127.0.0.1"]), network=network
        )
        assert (await outbound.request("GET", receiver.url("/", "two.example"))).status == 200
        assert network.dialled == ["93.184.216.34", "127.0.0.1"]
        await outbound.close()


async def test_a_connection_that_an_unguarded_call_opened_is_not_used_for_a_guarded_one() -> None:
    async with Receiver() as receiver:
        outbound = Outbound()
        assert (await outbound.request("GET", receiver.url(), guarded=False)).status == 200
        with pytest.raises(ForbiddenAddress):
            await outbound.request("GET", receiver.url())
        assert len(receiver.received) == 1
        await outbound.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_unless_it_is_asked_for(status: int) -> None:
    async def script(request: Received, writer: asyncio.StreamWriter) -> Reply:
        return Reply(status, (("location", "/there"),)) if request.path == "/" else Reply(body=b"there")

    async with Receiver(script) as receiver:
        outbound = Outbound(LOOPBACK, tls=TLS)
        assert (await outbound.request("GET", receiver.url())).status == status
        assert (await outbound.request("POST", receiver.url(), redirects=3)).status == status
        assert (await outbound.request("GET", receiver.url(), redirects=1)).body == b"there"
        assert [request.path for request in receiver.received] == ["/", "/", "/", "/there"]
        await outbound.close()


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.2:{port}/",
        "//127.0.0.2:{port}/",
        "http://localhost:{port}/",
        "https://10.0.0.1/",
        "http://[::1]:{port}/",
        "http://user@front.example:{port}/",
        "file:///etc/passwd",
        "http:/\\127.0.0.2/",
        "http://[",
    ],
)
async def test_each_hop_of_a_redirect_is_checked_anew(target: str) -> None:
    async def script(request: Received, writer: asyncio.StreamWriter) -> Reply:
        return Reply(302, (("location", target.format(port=receiver.port)),))

    async with Receiver(script) as receiver:

        async def resolve(host: str, port: int) -> Sequence[str]:
            return ["127.0.0.1" if host == "front.example" else "127.0.0.2"]

        outbound = Outbound(("front.example",), resolve=resolve)
        with dialled() as addresses, pytest.raises(ForbiddenAddress):
            await outbound.request("GET", receiver.url("/", "front.example"), redirects=3)
        assert addresses == ["127.0.0.1"]
        assert len(receiver.received) == 1
        await outbound.close()


async def test_redirects_end_and_take_no_credential_to_another_origin() -> None:
    async def script(request: Received, writer: asyncio.StreamWriter) -> Reply:
        return Reply(302, (("location", f"http://localhost:{receiver.port}/again"),))

    async with Receiver(script) as receiver:
        outbound = Outbound(LOOPBACK, resolve=ChangingNames(["127.0.0.1"]))
        headers = {"Authorization": "Bearer s", "X-Kept": "yes"}
        assert (await outbound.request("GET", receiver.url(), headers=headers, redirects=3)).status == 302
        assert ["authorization" in request.headers for request in receiver.received] == [True, False, False, False]
        assert [request.headers["x-kept"] for request in receiver.received] == ["yes"] * 4
        await outbound.close()


async def drip(request: Received, writer: asyncio.StreamWriter) -> None:
    """Sends a byte at a time, without end."""
    writer.write(b"HTTP/1.1 200 OK\r\n" + (b"" if request.path == "/head" else b"content-length: 9999\r\n\r\n"))
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("path", ["/head", "/body"])
async def test_an_answer_that_drips_ends_with_the_time_of_the_whole_call(path: str) -> None:
    async with Receiver(drip) as receiver:
        outbound = Outbound(LOOPBACK, tls=TLS)
        with pytest.raises(OutboundError, match=r"within 0\.1 s") as failed:
            await outbound.request("GET", receiver.url(path), timeout_s=0.1)
        assert failed.value.was_sent
        await outbound.close()


async def endless(request: Received, writer: asyncio.StreamWriter) -> None:
    kind = b"transfer-encoding: chunked" if request.path == "/chunked" else b"connection: close"
    writer.write(b"HTTP/1.1 200 OK\r\n" + kind + b"\r\n\r\n")
    while True:
        writer.write(b"400\r\n" + b"x" * 1_024 + b"\r\n" if request.path == "/chunked" else b"x" * 1_024)
        await writer.drain()


@pytest.mark.parametrize("path", ["/chunked", "/until-closed"])
async def test_a_body_without_end_is_read_up_to_the_limit(path: str) -> None:
    async with Receiver(endless) as receiver:
        outbound = Outbound(LOOPBACK, tls=TLS)
        with pytest.raises(OutboundError, match="longer than 4096 bytes"):
            await outbound.request("GET", receiver.url(path), most_bytes=4_096)
        await outbound.close()


async def test_the_limit_of_bytes_at_its_edge_and_as_announced() -> None:
    async def script(request: Received, writer: asyncio.StreamWriter) -> Reply:
        return Reply(body=b"x" * 100)

    async with Receiver(script) as receiver:
        outbound = Outbound(LOOPBACK, tls=TLS)
        assert len((await outbound.request("GET", receiver.url(), most_bytes=100)).body) == 100
        with pytest.raises(OutboundError, match="longer than 99 bytes"):
            await outbound.request("GET", receiver.url(), most_bytes=99)
        await outbound.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000,
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
        b"",
    ],
)
async def test_an_answer_that_is_no_answer_is_an_error_of_the_call(answer: bytes) -> None:
    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async with Receiver(script) as receiver:
        outbound = Outbound(LOOPBACK, tls=TLS)
        with pytest.raises(OutboundError) as failed:
            await outbound.request("GET", receiver.url(), timeout_s=30)
        assert failed.value.was_sent
        await outbound.close()


async def test_a_call_to_nobody_was_not_sent() -> None:
    async with Receiver() as receiver:
        url = receiver.url("/hook?token=s3cret")
    outbound = Outbound(LOOPBACK, tls=TLS)
    with pytest.raises(OutboundError) as failed:
        await outbound.request("POST", url, content=b"{}")
    assert failed.value.was_sent is False
    assert "s3cret" not in str(failed.value)
    await outbound.close()


async def test_a_call_that_waits_for_a_place_was_not_sent_and_its_place_is_free_again() -> None:
    gate = asyncio.Event()

    async def script(request: Received, writer: asyncio.StreamWriter) -> Reply:
        await gate.wait()
        return Reply()

    async with Receiver(script) as receiver:
        outbound = Outbound(LOOPBACK, at_once=1)
        first = asyncio.create_task(outbound.request("POST", receiver.url()))
        await until(lambda: len(receiver.received) == 1)
        with pytest.raises(OutboundError) as failed:
            await outbound.request("POST", receiver.url(), timeout_s=0.02)
        assert failed.value.was_sent is False
        gate.set()
        assert (await first).status == 200
        assert (await outbound.request("POST", receiver.url())).status == 200
        first = asyncio.create_task(outbound.request("POST", receiver.url()))
        gate.clear()
        await until(lambda: len(receiver.received) == 3)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        gate.set()
        assert (await outbound.request("POST", receiver.url())).status == 200
        await outbound.close()


async def test_a_stream_gives_the_body_in_parts_and_json_is_sent() -> None:
    async def script(request: Received, writer: asyncio.StreamWriter) -> Reply:
        return Reply(202, (("X-Sent", "Yes"),), request.body * 3)

    async with Receiver(script) as receiver:
        outbound = Outbound(LOOPBACK, tls=TLS)
        async with outbound.stream("POST", receiver.url("/a?b=c"), json={"a": 1}) as stream:
            assert (stream.status, stream.headers["x-sent"]) == (202, "Yes")
            assert b"".join([chunk async for chunk in stream]) == b'{"a":1}' * 3
        request = receiver.received[0]
        assert (request.method, request.path, request.headers["content-type"]) == ("POST", "/a?b=c", "application/json")
        await outbound.close()


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Receiver() as receiver, Receiver() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        outbound = Outbound(LOOPBACK, tls=TLS)
        assert (await outbound.request("GET", receiver.url())).status == 200
        assert (len(receiver.received), proxy.connections) == (1, 0)
        await outbound.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for hooks.example that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hooks.example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hooks.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made.public_bytes(Encoding.PEM)
    path.write_bytes(text)
    return path


async def test_tls_is_checked_for_the_name_at_the_address_that_was_dialled(certificate: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    asked: list[str | None] = []
    server.sni_callback = lambda connection, name, context: asked.append(name)
    async with Receiver(tls=server) as receiver:
        trusted = ssl.create_default_context(cafile=certificate)
        outbound = Outbound(("127.0.0.0/8",), resolve=ChangingNames(["127.0.0.1"]), tls=trusted)
        assert (await outbound.request("GET", f"https://hooks.example:{receiver.port}/")).status == 200
        assert receiver.received[0].headers["host"] == f"hooks.example:{receiver.port}"
        with pytest.raises(OutboundError, match="certificate") as failed:
            await outbound.request("GET", f"https://other.example:{receiver.port}/")
        assert failed.value.was_sent is False
        assert asked == ["hooks.example", "other.example"]
        await outbound.close()
