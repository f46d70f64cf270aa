"""One account takes what all share: places in a commit group, streams, connections, memory."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from typing import Final

from tests.attack.attack import Attack, Caller
from tests.attack.site import LIMITS

CALLERS: Final = 4
JOBS: Final = 10_000
STREAMS: Final = 300
SLOW: Final = 200
UNREAD: Final = 16
SLACK_S: Final = 8.0
"""What a busy machine may add to a time that was promised."""
ESTABLISHED: Final = "01"
HELD_MB: Final = 400.0
"""How much more memory a server may hold while callers leave their answers unread."""


async def refused_batches(attack: Attack) -> None:
    """Batches of 10,000 that the plan never allows: refused, and nothing of them remains."""
    body = json.dumps({"items": [{"tool": "anything", "payload": {"n": number}} for number in range(JOBS)]}).encode()
    name, key = await attack.site.account("trio")

    async def send(_: int) -> None:
        async with attack.connected(key) as caller:
            while attack.goes_on:
                reply = await caller.post("/api/batches", body)
                attack.must(reply.status in (402, 429, 503), f"a batch beyond the quota got {reply.status}")

    await attack.together(CALLERS, send)
    async with attack.connected(key) as caller:
        reply = await caller.get("/api/account")
        told = reply.json if reply.status == 200 else {"active": 0, "submitted": 0, "balance": 1_000_000}
        attack.must((told["active"], told["submitted"]) == (0, 0), f"{name} has jobs of a refused batch")
        attack.must(told["balance"] == 1_000_000, f"{name} paid for a refused batch")


async def splitting_quotes(attack: Attack) -> None:
    """Quotes for submits that would be split into 10,000 jobs: answered or refused, and nothing is made."""
    _, key = await attack.site.account(credits=4 * JOBS)

    async def send(_: int) -> None:
        async with attack.connected(key) as caller:
            while attack.goes_on:
                reply = await caller.post("/api/quote", {"tool": "images", "payload": {"n": 4 * JOBS}})
                attack.must(reply.status in (200, 429, 503), f"a quote that splits got {reply.status}")
                if reply.status == 200:
                    told = (reply.json["jobs"], reply.json["cost"])
                    attack.must(told == (JOBS, 4 * JOBS), f"a quote says {told}")

    await attack.together(CALLERS, send)
    async with attack.connected(key) as caller:
        reply = await caller.get("/api/jobs")
        attack.must(reply.status != 200 or reply.json["items"] == [], "a quote made jobs")


async def refused_finishes(attack: Attack) -> None:
    """A worker that goes on telling how a job ended, with a megabyte each time: what is kept of that is bounded."""
    words = "x" * 1_000_000
    _, key = await attack.site.account("pro")
    async with attack.connected(key) as user, attack.connected(attack.site.server.service) as worker:
        job = (await user.post("/api/jobs", {"tool": "upscale", "payload": {"image": "x"}})).json["job_id"]
        lease = await _claimed(worker, job)
        attack.must(lease is not None, "the attacker's own job was not to be had")
        if lease is None:
            return
        reply = await worker.post("/api/worker/finish", {**lease, "outcome": "completed", "result": {}})
        attack.must(reply.status == 200, f"a finish got {reply.status}")
        told = 0
        while attack.goes_on and told < 60:
            told += 1
            ends = {"outcome": "failed", "error": words} if told % 2 else {"outcome": "completed", "result": [words]}
            reply = await worker.post("/api/worker/finish", {**lease, **ends})
            attack.must(reply.status in (200, 409, 413, 422, 429), f"a second finish got {reply.status}")
        history = await worker.get(f"/api/jobs/{job}/events?limit=1000", Accept="application/json")
        attack.got["bytes kept"] = len(history.body)
        attack.must(len(history.body) < 2_500_000, f"{told} refused finishes left {len(history.body)} bytes")
        reply = await user.get(f"/api/jobs/{job}")
        attack.must(reply.status == 200 and reply.json["status"] == "completed", "a refused finish changed the job")


async def _claimed(worker: Caller, job: str) -> dict[str, object] | None:
    """The lease of that job; others are given back."""
    for _ in range(20):
        asked = {"worker": "hostile", "pools": ["gpu"], "limit": 1}
        for lease in (await worker.post("/api/worker/claim", asked)).json.get("leases", ()):
            name = {"job_id": lease["job_id"], "epoch": lease["epoch"]}
            if lease["job_id"] == job:
                return name
            await worker.post("/api/worker/finish", {**name, "outcome": "returned"})
    return None


async def streams(attack: Attack) -> None:
    """One key opens more streams than an account may have: the others can still open theirs."""
    _, key = await attack.site.account()
    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(attack.connected(key)) for _ in range(STREAMS)]
        opened = (await asyncio.gather(*(caller.stream("/api/account/events") for caller in callers))).count(200)
        attack.got["streams open"] = opened
        attack.must(opened < STREAMS, f"one account has {opened} streams")
        async with attack.connected(attack.site.victim.key) as other:
            attack.must(await other.stream("/api/account/events") == 200, "another account gets no stream")
        await asyncio.sleep(attack.left_s)


async def reopened_streams(attack: Attack) -> None:
    """One key opens streams and drops them as fast as it can: each has to find its place among all events first."""
    _, key = await attack.site.account()

    async def reopen(_: int) -> None:
        while attack.goes_on:
            async with attack.connected(key) as caller:
                status = await caller.stream("/api/account/events")
                attack.must(status in (200, 429, 503), f"a stream got {status}")

    await attack.together(2 * CALLERS, reopen)


async def slow_bodies(attack: Attack) -> None:
    """Headers and bodies that arrive byte by byte: each connection is ended in time."""
    _, key = await attack.site.account()
    most_s = max(map(float, LIMITS.values())) + SLACK_S

    async def trickle(number: int) -> None:
        async with attack.connected(key) as caller:
            attack.sent += 1
            head = f"POST /api/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
            rest = "" if number % 2 else "Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n{"
            began_at = time.monotonic()
            ended = asyncio.create_task(caller.wire.reader.read())
            with suppress(ConnectionError):
                await caller.wire.send((head + rest).encode())
                while not ended.done() and time.monotonic() < began_at + most_s:
                    await asyncio.wait([ended], timeout=0.2)
                    await caller.wire.send(b" " if rest else b"X")
            held_s = time.monotonic() - began_at
            attack.must(held_s < most_s, f"a request that trickles in was held for {held_s:.0f} s")
            with suppress(ConnectionError):
                said = await ended if ended.done() else b""
                attack.got[said[9:12].decode("latin-1") or "cut off"] += 1
            ended.cancel()

    await attack.together(SLOW, trickle)


async def unread_answers(attack: Attack) -> None:
    """Large answers that nobody takes: the server holds little of them, and cuts the connection off in time."""
    _, key = await attack.site.account()
    text, path = "x" * 250_000, "/api/jobs?limit=1000&include=payload"
    async with attack.connected(key) as caller:
        jobs = []
        for _ in range(20):
            reply = await caller.post("/api/jobs", {"tool": "anything", "payload": {"a": text}, "delay_s": 3600})
            jobs += [reply.json["job_id"]] if reply.status == 201 else []
        reply = await caller.get(path)
        attack.must(reply.status == 200 and len(reply.body) > 1_000_000, f"{path} got {reply.status}")
    # Several on each connection, so that there is more to give than the buffers on the way hold.
    asked = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode() * 20
    before = most = attack.site.memory_mb
    with ExitStack() as stack:
        deaf = [stack.enter_context(_deaf(attack)) for _ in range(UNREAD)]
        for one in deaf:
            one.sendall(asked)
            attack.sent += 20
        give_up_at = time.monotonic() + 2 * float(LIMITS["FICHA_WRITE_S"]) + SLACK_S
        ports = {one.getsockname()[1] for one in deaf}
        while (left := ports & _open_ports(attack)) and time.monotonic() < give_up_at:
            await asyncio.sleep(0.1)
            most = max(most, attack.site.memory_mb)
        attack.got["cut off"] = UNREAD - len(left)
        attack.got["MB held"] = round(most - before)
        attack.must(not left, f"{len(left)} of {UNREAD} callers that read nothing were not cut off")
        attack.must(most - before < HELD_MB, f"{UNREAD} callers that read nothing took {most - before:.0f} MB")
    async with attack.connected(key) as caller:
        for job in jobs:
            await caller.post(f"/api/jobs/{job}/cancel")


def _deaf(attack: Attack) -> socket.socket:
    """A connection with room for little that nobody reads."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    one.connect((attack.site.host, attack.site.port))
    return one


def _open_ports(attack: Attack) -> set[int]:
    """Ports of the callers that the server is connected with. It may have ended a connection long before the caller
    can know: the end comes after all that was sent and not read."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, here, there, state, *_ = line.split()
        if state == ESTABLISHED and int(here.rpartition(":")[2], 16) == attack.site.port:
            found.add(int(there.rpartition(":")[2], 16))
    return found
