"""Bodies of any shape up to the size limit: refused with a clear problem, or stored and given back as they were."""

from __future__ import annotations

import json
from functools import cache
from typing import Final

from tests.attack.attack import Attack

CALLERS: Final = 4
BODY: Final = 1_000_000
PAYLOAD: Final = 250_000
STORED: Final = 20
"""Large jobs that one attacker stores at most."""


def submit(payload: bytes, **more: object) -> bytes:
    """A submit of a tool that takes anything, whose payload is written as it stands."""
    rest = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in more.items())
    return b'{"tool": "anything", "payload": ' + payload + rest.encode() + b"}"


async def repeated_keys(attack: Attack) -> None:
    """Many names, and one of them again in the end: refused as JSON that parsers disagree about."""
    names = b", ".join(b'"name-%d": 1' % number for number in range(BODY // 20))
    body = submit(b"{" + names + b', "name-0": 2}')
    _, key = await attack.site.account()

    async def send(_: int) -> None:
        async with attack.connected(key) as caller:
            while attack.goes_on:
                reply = await caller.post("/api/jobs", body)
                attack.must(reply.status in (400, 413, 429, 503), f"a repeated key was answered with {reply.status}")

    await attack.together(CALLERS, send)


async def huge_numbers(attack: Attack) -> None:
    """Numbers that are slow to read and long when written out are stored, listed and read back, as they were."""
    numbers = b"[" + b", ".join([b"1e308"] * (PAYLOAD // 8)) + b"]"
    _, key = await attack.site.account()
    async with attack.connected(key) as caller:
        stored = []
        for _ in range(STORED):
            reply = await caller.post("/api/jobs", submit(b'{"numbers": ' + numbers + b"}", delay_s=3600))
            if reply.status == 201:
                stored.append(reply.json["job_id"])
        attack.must(bool(stored), "no job with large numbers was taken")
        while attack.goes_on and stored:
            await caller.get("/api/jobs?limit=20")
            reply = await caller.get(f"/api/jobs/{stored[attack.sent % len(stored)]}")
            if reply.status == 200:
                attack.must(len(reply.body) < 2 * PAYLOAD, f"{PAYLOAD} bytes came back as {len(reply.body)}")
                found = reply.json["payload"]["numbers"]
                attack.must(
                    found == [1e308] * (PAYLOAD // 8) and isinstance(found[0], float), "the numbers are other ones"
                )
        for job in stored:
            await caller.post(f"/api/jobs/{job}/cancel")


@cache
def shapes() -> dict[str, bytes]:
    """Payloads beyond a limit, by what is too much of them. They are made only if somebody wants them."""
    return {
        "deep lists": b'{"a": ' + b"[" * (BODY // 2 - 100) + b"]" * (BODY // 2 - 100) + b"}",
        "deep objects": b'{"a": ' * (BODY // 8) + b"1" + b"}" * (BODY // 8),
        "deep and never closed": b"[" * BODY,
        "wide lists": b'{"a": [' + b"0," * (BODY // 2 - 100) + b"0]}",
        "wide objects": b"{" + b", ".join(b'"%x": 0' % number for number in range(BODY // 14)) + b"}",
        "escapes": b'{"a": "' + b"\\u4e00" * (BODY // 6 - 100) + b'"}',
        "long number": b'{"a": ' + b"9" * (BODY - 100) + b"}",
        "large exponent": b'{"a": 1e' + b"9" * (BODY - 100) + b"}",
        "many fractions": b'{"a": [' + b", ".join([b"1.7976931348623157e308"] * (BODY // 25)) + b"]}",
        "broken UTF-8": b'{"a": "' + b"\xff" * (BODY - 100) + b'"}',
    }


async def deep_and_wide(attack: Attack) -> None:
    """None of these fits a payload: each is refused, whatever its shape, and nothing of it is stored. A fraction that
    is far too long may be read as the nearest one that is not."""
    name, key = await attack.site.account()

    async def send(first: int) -> None:
        bodies = [*shapes().items(), ("long fraction", b'{"a": 0.' + b"1" * (BODY - 100) + b"}")]
        async with attack.connected(key) as caller:
            turn = first
            while attack.goes_on:
                turn += 1
                shape, payload = bodies[turn % len(bodies)]
                reply = await caller.post("/api/jobs", submit(payload))
                is_refused = 400 <= reply.status < 500 or reply.status == 503
                attack.must(is_refused or shape == "long fraction", f"{shape} got {reply.status}")

    await attack.together(CALLERS, send)
    taken = attack.got["201"]
    async with attack.connected(key) as caller:
        reply = await caller.get("/api/account")
        attack.must(reply.status != 200 or reply.json["submitted"] == taken, f"{name} has jobs that were refused")


async def surrogates(attack: Attack) -> None:
    """Half a character, in every field of a submit, in paths, parameters and headers: refused, and no failure."""
    lone = "\\ud800"
    fields = ("tool", "account", "idempotency_key", "session", "correlation_id", "reservation", "batch", "run_at")
    bodies = [submit(b'{"a": "\\ud800"}'), submit(b'{"\\ud800": 1}'), submit(b'{"a": [{"b": "x\\udfffy"}]}')]
    bodies += [
        b'{"tool": "anything", "payload": {}, "' + name.encode() + b'": "' + lone.encode() + b'"}' for name in fields
    ]
    bodies.append(b'{"tool": "anything", "payload": {}, "\\ud800": 1}')
    batch = b'{"items": [{"tool": "anything", "payload": {"a": "\\udc00"}}]}'
    paths = [
        *(f"/api/{what}/%ED%A0%80" for what in ("jobs", "batches")),
        "/api/jobs/%ED%A0%80/events",
        *(
            f"/api/jobs?{name}=%ED%A0%80"
            for name in ("session", "tool", "pool", "batch", "cursor", "account", "status")
        ),
        "/api/account/ledger?cursor=%ED%A0%80",
        "/%ED%A0%80",
    ]
    _, key = await attack.site.account()
    async with attack.connected(key) as caller:
        while attack.goes_on:
            for body in bodies:
                reply = await caller.post("/api/jobs", body)
                attack.must(400 <= reply.status < 500, f"half a character got {reply.status}: {body[:80]!r}")
            reply = await caller.post("/api/batches", batch)
            attack.must(reply.status == 422, f"half a character in a batch got {reply.status}")
            reply = await caller.post("/api/quote", bodies[0])
            attack.must(reply.status == 422, f"half a character in a quote got {reply.status}")
            reply = await caller.post("/api/reservations", {"account": "\ud800"})
            attack.must(400 <= reply.status < 500, f"half a character in a reservation got {reply.status}")
            for path in paths:
                reply = await caller.get(path)
                attack.must(400 <= reply.status < 500, f"{path} got {reply.status}")
            for header in ("Idempotency-Key", "X-Correlation-ID", "Last-Event-ID", "If-None-Match"):
                await caller.post("/api/jobs", submit(b"{}", delay_s=3600), **{header: "\ud800"})
