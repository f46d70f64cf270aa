"""Other accounts' things and one's own limits: nothing is seen, nothing is changed, nothing is passed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Final
from uuid import uuid4

from tests.attack.attack import Attack, Caller
from tests.server.raw_http import Reply

REVOKED_S: Final = 2.0
"""Within this time a revocation holds in every process."""
TOKEN_S: Final = 4.0
"""How long a job's token lasts: long enough to open a stream with it on a busy machine."""
SLACK_S: Final = 4.0


def spellings(one: str) -> Iterator[str]:
    """The ways to write an id."""
    plain = one.replace("-", "")
    yield from (one, one.upper(), plain, plain.upper(), f"%7B{one}%7D", f"urn:uuid:{one}", f"URN:UUID:{one.upper()}")
    yield from (
        f"%{ord(one[0]):x}{one[1:]}",
        f"{one}%20",
        f"%20{one}",
        f"{one}%0A",
        f"{one}%00",
        f"{one}%2F",
        f"{one}/",
    )
    yield from (
        one.replace("-", "%2D"),
        one.replace("-", "_"),
        f"0x{plain}",
        str(int(plain, 16)),
        f"{one}?x",
        f"{one};x",
    )
    yield "".join(chr(0xFF10 + int(c)) if c.isdigit() else c for c in one)


def questions(kind: str, spelled: str) -> Iterator[tuple[str, str]]:
    """All that can be asked about a thing of that kind."""
    match kind:
        case "job":
            yield from (("GET", f"/api/jobs/{spelled}"), ("GET", f"/api/jobs/{spelled}/events"))
            yield from (("POST", f"/api/jobs/{spelled}/cancel"), ("POST", f"/api/jobs/{spelled}/token"))
        case "batch":
            yield from (("GET", f"/api/batches/{spelled}"), ("GET", f"/api/jobs?batch={spelled}"))
            yield from (("POST", f"/api/batches/{spelled}/cancel"), ("POST", f"/api/batches/{spelled}/resume"))
        case _:
            yield from (("POST", f"/api/reservations/{spelled}/{act}") for act in ("consume", "release"))


async def foreign_ids(attack: Attack) -> None:
    """A foreign thing and one that does not exist get the same answer, however their ids are written."""
    victim = attack.site.victim
    _, key = await attack.site.account()
    before = await asyncio.to_thread(victim.state, attack.site.server)
    things = {"job": victim.job, "batch": victim.batch, "reservation": victim.reservation}
    async with attack.connected(key) as caller:
        while attack.goes_on:
            for kind, there in things.items():
                # Alike but for the random part: what the id itself says about its time must not decide.
                absent = there[:24] + uuid4().hex[:12]
                for one, other in zip(spellings(there), spellings(absent), strict=True):
                    for (method, path), (_, unknown) in zip(questions(kind, one), questions(kind, other), strict=True):
                        if not attack.goes_on:
                            break
                        foreign = await _answer(caller, method, path)
                        nothing = await _answer(caller, method, unknown)
                        alike = _without(foreign, there) == _without(nothing, absent)
                        attack.must(alike, f"{method} {path} tells a foreign {kind} from none")
    after = await asyncio.to_thread(victim.state, attack.site.server)
    attack.must(before == after, "something of the victim's has changed")


async def _answer(caller: Caller, method: str, path: str) -> Reply:
    body = b"" if method == "POST" else None
    return await caller.ask(method, path, body, {"Accept": "application/json"})


def _without(reply: Reply, spelled: str) -> tuple[int, str]:
    """An answer without what must differ: the id, as far as it is repeated, and the request's own."""
    if "json" not in reply.headers.get("content-type", ""):
        return reply.status, reply.body.decode("latin-1")
    told = {name: value for name, value in reply.json.items() if name not in ("correlation_id", "instance")}
    text = json.dumps(told, ensure_ascii=False)
    for way in spellings(spelled):
        text = text.replace(way, "…").replace(way.lower(), "…")
    return reply.status, text.replace(spelled[24:], "…")


async def resume_beyond_limits(attack: Attack) -> None:
    """A batch that failed is resumed again and again: no more jobs come of it than the plan allows to submit."""
    server = attack.site.server
    while attack.goes_on:
        _, key = await attack.site.account("trio")
        async with attack.connected(key) as user, attack.connected(server.service) as worker:
            items = [{"tool": "unlucky", "payload": {}}] * 3
            made = await user.post("/api/batches", {"items": items})
            if made.status != 201:
                attack.must(made.status in (429, 503), f"a batch of three got {made.status}")
                continue
            batch = made.json["batch_id"]
            if not await _ended(attack, user, batch):
                break
            for _ in range(3):
                further = {"tool": "upscale", "payload": {"image": "x"}, "delay_s": 3600}
                reply = await user.post("/api/jobs", further)
                attack.must(reply.status == 201, f"a submit within the quota got {reply.status}")
            for _ in range(3):
                if not attack.goes_on:
                    break
                await user.post(f"/api/batches/{batch}/resume")
                told = (await user.get("/api/account")).json
                attack.must(told["active"] <= 3, f"an account that may have 3 active jobs has {told['active']}")
            jobs = (await user.get("/api/jobs?status=queued")).json["items"]
            for job in jobs:
                await worker.post(f"/api/jobs/{job['id']}/cancel")


async def _ended(attack: Attack, user: Caller, batch: str) -> bool:
    """Whether its jobs have come to their end in time; without a worker they do not."""
    while attack.goes_on:
        told = (await user.get(f"/api/batches/{batch}")).json
        if told["progress"] == 100:
            return True
        await asyncio.sleep(0.1)
    return False


async def dedupe_probes(attack: Attack) -> None:
    """What another account has submitted is neither served to others nor can they find out that it was submitted."""
    _, key = await attack.site.account()
    secret = f"signed://{uuid4().hex}"
    asked = {"tool": "embed", "payload": {"text": secret}}
    async with attack.connected(attack.site.victim.key) as victim, attack.connected(key) as caller:
        first = (await victim.post("/api/jobs", asked)).json
        while attack.goes_on:
            unknown = {"tool": "embed", "payload": {"text": f"signed://{uuid4().hex}"}}
            quotes = [(await caller.post("/api/quote", one)).json for one in (asked, unknown)]
            told = [{field: quote.get(field) for field in ("admitted", "cost", "jobs", "refusal")} for quote in quotes]
            attack.must(told[0] == told[1], f"a quote tells what another account submitted: {told}")
            await asyncio.sleep(0.05)
        receipt = (await caller.post("/api/jobs", {**asked, "delay_s": 3600})).json
        attack.must(receipt.get("cost") == first["cost"], f"another account's work was sold for {receipt.get('cost')}")
        attack.must(receipt.get("status") == "queued", f"another account's result was served: {receipt}")
        await caller.post(f"/api/jobs/{receipt['job_id']}/cancel")


async def revoked_streams(attack: Attack) -> None:
    """A stream ends with its credential: soon after its key was revoked, and when its token is over."""
    server = attack.site.server
    name, first = await attack.site.account()
    async with attack.connected(server.admin) as admin, attack.connected(first) as user:
        rounds = 0
        while attack.goes_on and rounds < 2:
            rounds += 1
            made = (
                await admin.post("/api/admin/api-keys", {"name": uuid4().hex, "scope": "user", "account": name})
            ).json
            job = (await user.post("/api/jobs", {"tool": "upscale", "payload": {"image": "x"}, "delay_s": 3600})).json
            token = (await user.post(f"/api/jobs/{job['job_id']}/token", {"ttl_s": TOKEN_S})).json["token"]
            async with attack.connected(made["secret"]) as follower, attack.connected() as browser:
                path = f"/api/jobs/{job['job_id']}/events?token={token}"
                attack.must(await browser.stream(path) == 200, "a live token gets no stream")
                attack.must(await follower.stream("/api/account/events") == 200, "a live key gets no stream")
                began_at = time.monotonic()
                reply = await admin.post(f"/api/admin/api-keys/{made['key']['id']}/revoke")
                attack.must(reply.status == 200, f"a revocation got {reply.status}")
                streams = ((follower, "a revoked key", REVOKED_S), (browser, "an expired token", TOKEN_S))
                for who, what, within_s in streams:
                    ended = await _is_over(who, began_at + within_s + SLACK_S)
                    attack.got[f"{what}'s stream ended"] += ended
                    attack.must(ended, f"the stream of {what} goes on {SLACK_S:g} s too long")
            await user.post(f"/api/jobs/{job['job_id']}/cancel")


async def _is_over(follower: Caller, give_up_at: float) -> bool:
    """Whether a stream ends before that time: by its last chunk, or with its connection."""
    last = b""
    try:
        async with asyncio.timeout(max(0.0, give_up_at - time.monotonic())):
            while not last.endswith(b"0\r\n\r\n") and (came := await follower.wire.reader.read(65_536)):
                last = (last + came)[-5:]
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True
