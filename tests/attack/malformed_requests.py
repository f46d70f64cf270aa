"""Requests that two parsers could read in two ways: refused before anything is done."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tests.attack.attack import Attack

HOST: Final = b"Host: 127.0.0.1\r\n"


async def second_headers(attack: Attack) -> None:
    """One Host, one Authorization, each parameter once: anything else is refused."""
    _, key = await attack.site.account()
    mine = f"Authorization: Bearer {key}\r\n".encode()
    theirs = f"Authorization: Bearer {attack.site.server.admin}\r\n".encode()
    account = b"GET /api/account HTTP/1.1\r\n"
    cases = {
        "no Host": account + mine,
        "two Hosts": account + HOST + b"Host: example.org\r\n" + mine,
        "the same Host twice": account + HOST + HOST + mine,
        "two credentials": account + HOST + mine + theirs,
        "the same credential twice": account + HOST + mine + mine,
        "two limits": b"GET /api/jobs?limit=1&limit=2 HTTP/1.1\r\n" + HOST + mine,
        "two cursors": b"GET /api/jobs?cursor=a&cursor=b HTTP/1.1\r\n" + HOST + mine,
        "two lengths": b"POST /api/jobs HTTP/1.1\r\n" + HOST + mine + b"Content-Length: 2\r\nContent-Length: 3\r\n",
        "a length and chunks": b"POST /api/jobs HTTP/1.1\r\n"
        + (HOST + mine + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
    }
    while True:
        # One round at least: to make the account may take all of a short time.
        for words, sent in cases.items():
            async with attack.connected() as caller:
                reply = await caller.exchange(sent + b"\r\n", words)
                attack.must(400 <= reply.status < 500, f"{words} got {reply.status}")
        async with attack.connected() as caller:
            reply = await caller.exchange(account + HOST + mine + b"\r\n", "an ordinary request")
            attack.must(reply.status in (200, 429, 503), f"an ordinary request got {reply.status}")
        if not attack.goes_on:
            return


async def oldest_http(attack: Attack) -> None:
    """Requests of other versions, and none at all: an answer that says so, or an end without a word."""
    cases = [
        b"GET /api/openapi.json\r\n\r\n",
        b"GET /healthz\r\n",
        b"GET /healthz HTTP/0.9\r\n\r\n",
        b"\x16\x03\x01\x02",
    ]
    cases += [b"GET /healthz HTTP/2.0\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET http:// HTTP/1.1\r\n" + HOST]
    while attack.goes_on:
        for sent in cases:
            async with attack.connected() as caller:
                attack.sent += 1
                said = b""
                with suppress(ConnectionError):
                    await caller.wire.send(sent + b"\r\n\r\n")
                    caller.wire.writer.write_eof()
                    said = await caller.wire.end()
                attack.got[said[9:12].decode("latin-1") if said.startswith(b"HTTP/1.1 ") else "no answer"] += 1
                attack.must(said[:10] in (b"", b"HTTP/1.1 4"), f"{sent[:40]!r} got {said[:40]!r}")
