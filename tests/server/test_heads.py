"""Request lines and headers of any shape within their limit: answered, and without keeping the event loop."""

from __future__ import annotations

import time

import pytest

from ficha import Ficha, Plan
from ficha.server import Settings
from tests.server.raw_http import behind
from tests.support.server_process import SECRET

MOST = 30_000
LOOP_S = 0.2
"""The rule is 50 ms. This is processor time, with room for a slow machine; what is quadratic takes seconds."""
TARGETS = [
    *("/" * MOST, "/api/jobs/" + "a" * MOST, "/api/jobs/" + "%2F" * (MOST // 3), "/" + "%25/" * (MOST // 4)),
    *(
        "/api/admin/accounts/" + "%2f" * (MOST // 3) + "/ledger",
        "/api/jobs?" + "&" * MOST,
        "/api/jobs?" + "a&" * (MOST // 2),
    ),
    *("/api/jobs?" + "token=x&" * (MOST // 8), "/api/jobs?" + "%74oken=x&" * (MOST // 10), "/api/jobs?a=" + "%" * MOST),
    *(
        "/api/jobs?cursor=" + "A" * MOST,
        "/api/jobs?limit=" + "9" * MOST,
        "/api/jobs?status=" + "%ED%A0%80" * (MOST // 9),
    ),
    *("/api/jobs/0/events?token=" + "a." * (MOST // 2), "/api/jobs/0/events?after=" + "9" * MOST),
]
HEADERS = [
    *("Authorization: Bearer" + " " * MOST + "\x7f", "Authorization: Bearer " + "a." * (MOST // 2)),
    *("Authorization: Bearer " + "a" * MOST + "\xff", "Authorization: Bearer ficha_" + "a" * MOST),
    *("Prefer: wait" + " " * MOST + ";", "Prefer: " + "wait=," * (MOST // 6), "Prefer: wait=" + "9" * MOST),
    *("Accept: " + "," * MOST, "Accept: " + "text/*;q=" * (MOST // 9), "If-None-Match: " + ",W/" * (MOST // 3)),
    *('Idempotency-Key: "' + '"' * MOST, "Idempotency-Key: " + "a" * MOST, "Last-Event-ID: " + "9" * MOST),
    *(
        "Content-Type: " + ";" * MOST,
        "X-Correlation-ID: " + "a" * MOST,
        "X-Forwarded-For: " + "127.0.0.1," * (MOST // 10),
    ),
    *("Cookie: " + "a=b;" * (MOST // 4), "\r\n".join(f"X-{number}: 1" for number in range(95))),
]


@pytest.mark.parametrize("part", ["target", "header"])
async def test_no_head_keeps_the_event_loop(part: str) -> None:
    async with Ficha("memory://", plans=[Plan("open")]) as app:
        await app.open_account("ana")
        job = "/api/jobs/0198f1a2-7c3e-7d4b-9a51-3f6c2e8b7a10/events"
        login = f"Authorization: Bearer {(await app.create_api_key('ana', account='ana')).secret}\r\n"
        asgi = app.asgi(Settings(secret=SECRET, trusted_proxies=("127.0.0.1",)))
        heads = [f"GET {target} HTTP/1.1\r\nHost: x\r\n{login}\r\n" for target in TARGETS]
        if part == "header":
            heads = [
                f"{line} HTTP/1.1\r\nHost: x\r\n{'' if header.startswith('Auth') else login}{header}\r\n\r\n"
                for header in HEADERS
                for line in (f"GET {job}", "POST /api/jobs")
            ]
        async with behind(asgi) as server:
            for head in heads:
                began = time.thread_time()
                reply = await server.ask(head.encode("latin-1"))
                assert 200 <= reply.status < 500, head[:100]
                assert time.thread_time() - began < LOOP_S, head[:100]
