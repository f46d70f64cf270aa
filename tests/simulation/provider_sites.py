"""Providers that misbehave: they answer late, with errors or garbage, or not at all, and their call-backs come early,
late, twice, never, forged, contradicting, or to the address of other work.

`ProviderSite` is the provider's server, with books of its own; `SiteProvider` is the class that speaks to it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct

from ficha.app import Ficha
from ficha.outbound.http_client import Answer
from ficha.providers import (
    BadCallback,
    Breaker,
    Provider,
    ProviderCall,
    ProviderError,
    ProviderFailed,
    ProviderHttp,
    ProviderResult,
    ProviderStatus,
    ProviderSucceeded,
    ProviderWorking,
    ReceivedCallback,
    RemoteFile,
)
from ficha.providers.base import PERIODS_S, RATE

from .network import Network, Request
from .trace import Trace

REQUEST_S: Final = 3.0
POLL_S: Final = 2.0
FORGED: Final = "forged"
CLOCK_S: Final = 90.0
"""For so long after the database's clock was set forward, limits in time may be exceeded: they are kept by it."""

Ask = Callable[[Callable[[Ficha], Awaitable[Any]]], Awaitable[Any]]


class Work(Struct, eq=False):
    """What the provider was asked to do, and how that will end."""

    ref: str
    key: str
    mark: str
    callback_url: str | None
    ends_at: float
    end: ProviderStatus
    is_cancelled: bool = False
    said: list[str] = []
    """What it said of the end, to whoever asked and in call-backs that it sent itself."""
    asked: int = 0
    """How often it was asked how the work stands."""
    cancels: int = 0
    """How often it was told to stop."""


class _Told(Struct):
    ref: str
    status: ProviderStatus


class ProviderSite:
    """The server. How bad it is, and what it can do, the seed decides."""

    def __init__(self, name: str, network: Network, random: Random, trace: Trace, ask: Ask) -> None:
        self.host = name
        self.takes_keys = random.random() < 0.6
        self.signs = random.random() < 0.5
        self.rate = random.choice((None, None, "5/s", "60/m"))
        self.at_once = random.choice((None, 1, 2))
        self.badness = random.choice((0.0, 0.3, 1.0))
        self.is_fickle = random.random() < 0.3
        self.down_until = 0.0
        self.clock_set_at = float("-inf")
        """When the database's clock was last set forward."""
        self.works: list[Work] = []
        self.by_ref: dict[str, Work] = {}
        self.by_key: dict[str, Work] = {}
        self.requests = 0
        self._out = 0
        self._sent: deque[float] = deque()
        self._network = network
        self._random = random
        self._trace = trace
        self._ask = ask

    def calm(self) -> None:
        self.badness = self.down_until = 0.0

    @property
    def now(self) -> float:
        return self._network.loop.now

    # The limits

    def send(self, timeout_s: float) -> None:
        self.requests += 1
        self._out += 1
        self._sent.append(self.now)
        if self.now < self.clock_set_at + CLOCK_S:
            return
        if self.at_once is not None and self._out > self.at_once:
            self._trace.fail(f"{self._out} requests to {self.host} are out at once, its limit is {self.at_once}")
        if self.rate is not None and (found := RATE.fullmatch(self.rate)) is not None:
            most, period_s = int(found[1]), PERIODS_S[found[2]]
            while self._sent[0] <= self.now - period_s:
                self._sent.popleft()
            if len(self._sent) > most and self._sent[0] > self.clock_set_at + CLOCK_S:
                self._trace.fail(f"{len(self._sent)} requests to {self.host} within {period_s} s, its limit is {most}")

    def end(self, sent: Any) -> None:
        self._out -= 1

    # What it answers

    def serve(self, request: Request) -> tuple[float, Answer | None]:
        fate = self._fate()
        if fate == "refused":
            return 0.0, Answer(429, {"retry-after": str(self._random.randint(1, 3))}, b'{"error":"too many"}')
        if fate == "failed":
            return 0.0, Answer(500, {}, b"")
        _, act, *named = request.path.split("/")
        if fate == "silent" and self._random.random() < 0.5:
            return 0.0, None
        if act == "work" and not named:
            if self.badness and self._random.random() < 0.03:
                return 0.0, Answer(400, {}, b'{"error":"the picture is not allowed"}')
            answer = self._begin(msgspec.json.decode(request.body))
        else:
            answer = self._answer(act, self.by_ref[named[0]])
        match fate:
            case "silent":
                return 0.0, None
            case "late":
                return self._random.random() * 3 * REQUEST_S, answer
            case "failed afterwards":
                return 0.0, Answer(500, {}, b"")
            case "garbage":
                return 0.0, Answer(200, {}, self._random.choice((b"<html>sorry</html>", b"[]", b"{}", b"\xff")))
            case _:
                return self._random.random() ** 3, answer

    def _fate(self) -> str:
        if self.now < self.down_until:
            return "failed"
        if self._random.random() >= self.badness * 0.5:
            return "good"
        return self._random.choice(("refused", "failed", "silent", "late", "late", "failed afterwards", "garbage"))

    def _answer(self, act: str, work: Work) -> Answer:
        if act == "status":
            work.asked += 1
            return Answer(200, {}, msgspec.json.encode(self._say(work, self._status(work))))
        if act == "result":
            assert isinstance(work.end, ProviderSucceeded)
            return Answer(200, {}, msgspec.json.encode(_result(work)))
        work.cancels += 1
        if self.now < work.ends_at:
            work.is_cancelled = True
        return Answer(200, {}, b"{}")

    def _status(self, work: Work) -> ProviderStatus:
        if work.is_cancelled:
            return ProviderFailed("it was cancelled")
        return work.end if self.now >= work.ends_at else ProviderWorking(self._random.randint(0, 99))

    def _say(self, work: Work, status: ProviderStatus) -> ProviderStatus:
        work.said.append(type(status).__name__)
        return status

    def _begin(self, asked: dict[str, Any]) -> Answer:
        key = asked["key"]
        work = self.by_key.get(key) if self.takes_keys else None
        if work is None:
            work = self._new(key, asked["mark"], asked["callback_url"])
        return Answer(200, {}, msgspec.json.encode({"ref": work.ref}))

    def _new(self, key: str, mark: str, callback_url: str | None) -> Work:
        random = self._random
        ref = f"{self.host}-{len(self.works) + 1}"
        takes_s = random.choice((0.0, 0.5, 4.0, 12.0)) * random.random()
        work = Work(ref, key, mark, callback_url, self.now + takes_s, ProviderWorking(), said=[])
        drawn = random.random()
        if drawn < 0.5:
            work.end = ProviderSucceeded(_result(work) if random.random() < 0.5 else None)
        elif drawn < 0.97:
            work.end = ProviderFailed("the provider could not do it", final=random.random() < 0.2)
        else:
            work.ends_at = float("inf")
        self.works.append(work)
        self.by_ref[ref] = work
        self.by_key.setdefault(key, work)
        if callback_url is not None:
            self._plan_callbacks(work, callback_url, takes_s)
        return work

    # Call-backs

    def _plan_callbacks(self, work: Work, url: str, takes_s: float) -> None:
        random = self._random
        if random.random() < 0.2:
            self._call_back(work, url, 0.0)
        if random.random() < 0.1:
            self._call_back(work, url, takes_s * random.random(), is_forged=True)
        if random.random() < 0.1:
            other = random.choice(self.works)
            self._call_back(work, other.callback_url or url, takes_s + random.random())
        if work.ends_at < float("inf"):
            for _ in range(random.choice((0, 0, 1, 1, 1, 2, 3))):
                self._call_back(work, url, takes_s + random.choice((0.0, 0.0, 1.0, 20.0)) * random.random())

    def _call_back(self, work: Work, url: str, after_s: float, *, is_forged: bool = False) -> None:
        call = self._called_back(work, url.rpartition("/")[2], after_s, is_forged)
        self._network.loop.create_task(call, context=self._network.loop.outside.context)

    async def _called_back(self, work: Work, token: str, after_s: float, is_forged: bool) -> None:
        await asyncio.sleep(after_s)
        status = self._status(work)
        if self.is_fickle and not isinstance(status, ProviderWorking) and self._random.random() < 0.3:
            is_success = isinstance(status, ProviderSucceeded)
            status = ProviderFailed("no, it failed") if is_success else ProviderSucceeded(_result(work))
        if is_forged:
            told = ProviderSucceeded(ProviderResult({"mark": FORGED, "ref": work.ref}))
            body = msgspec.json.encode(_Told(work.ref, told))
            headers = {"x-signature": "0" * 64}
        else:
            body = msgspec.json.encode(_Told(work.ref, self._say(work, status)))
            headers = {"x-signature": signature(self.host, body)}
        if is_forged and not self.signs:
            # Nobody can tell it from a real one: it leads to a question, and no more.
            headers = {}
        await self._ask(lambda app: app.receive_callback(self.host, token, headers, body))

    # What must be so in the end

    def wrong(self, jobs: dict[str, Any], results: dict[str, str]) -> Iterator[str]:
        """`jobs`: those of this provider's tools; `results`: of all jobs."""
        begun: defaultdict[str, int] = defaultdict(int)
        for work in self.works:
            job_id, _, run = work.key.partition(":")
            begun[work.key] += 1
            job = jobs.get(job_id)
            if job is None or int(run) > job.attempts:
                yield f"{self.host} was asked for work under the key {work.key}, which is of no run"
        for key, count in begun.items():
            if count > 1:
                yield f"{self.host} began the work of the key {key} {count} times"
        for job in jobs.values():
            expected = 0 if job.status == "completed" else job.charged
            if job.refunded != expected:
                yield f"job {job.id} is {job.status} and {job.refunded} of its {job.charged} credits were paid back"
            if job.status != "completed":
                continue
            output = msgspec.json.decode(results[job.id])["output"]
            work = self.by_ref.get(output["ref"])
            if work is None or work.key != f"{job.id}:{job.attempts}" or output["mark"] != work.mark:
                yield f"job {job.id} was completed after {job.attempts} failed runs with {output}, which is not its own"
            elif "ProviderSucceeded" not in work.said:
                yield f"job {job.id} was completed, but {self.host} never said that {work.ref} succeeded"


def signature(name: str, body: bytes) -> str:
    return hmac.digest(name.encode(), body, hashlib.sha256).hex()


def _result(work: Work) -> ProviderResult:
    host, _, number = work.ref.partition("-")
    made = (RemoteFile(f"https://files-of-{host}/{work.ref}.png"),) if int(number) % 2 else ()
    return ProviderResult({"mark": work.mark, "ref": work.ref}, made, cost=0.25)


class SiteProvider(Provider):
    """Speaks to a `ProviderSite`."""

    def __init__(self, site: ProviderSite) -> None:
        super().__init__(
            site.host,
            rate=site.rate,
            at_once=site.at_once,
            timeout_s=REQUEST_S,
            poll_s=POLL_S,
            breaker=Breaker(failures=4, open_s=2.0),
        )
        self.takes_keys = site.takes_keys
        self.signs_callbacks = site.signs

    async def start(
        self,
        http: ProviderHttp,
        call: ProviderCall,
        *,
        callback_url: str | None,
        key: str,
        correlation_id: str | None,
    ) -> str:
        asked = {"key": key, "callback_url": callback_url, "mark": call.input["mark"]}
        answer = await http.json("POST", f"https://{self.name}/work", json=asked)
        try:
            return str(answer["ref"])
        except (KeyError, TypeError):
            raise ProviderError("the provider's answer has no reference") from None

    async def status(self, http: ProviderHttp, ref: str) -> ProviderStatus:
        return _read((await http.request("GET", f"https://{self.name}/status/{ref}")).body, ProviderStatus)

    async def result(self, http: ProviderHttp, ref: str) -> ProviderResult:
        return _read((await http.request("GET", f"https://{self.name}/result/{ref}")).body, ProviderResult)

    async def cancel(self, http: ProviderHttp, ref: str) -> None:
        await http.request("POST", f"https://{self.name}/cancel/{ref}")

    async def verify(self, http: ProviderHttp, callback: ReceivedCallback) -> ProviderStatus | None:
        if not self.signs_callbacks:
            return None
        if callback.headers.get("x-signature") != signature(self.name, callback.body):
            raise BadCallback("the signature is wrong")
        return msgspec.json.decode(callback.body, type=_Told).status

    def refs(self, callback: ReceivedCallback) -> str | None:
        return msgspec.json.decode(callback.body, type=_Told).ref


def _read(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError:
        raise ProviderError("the provider's answer makes no sense") from None
