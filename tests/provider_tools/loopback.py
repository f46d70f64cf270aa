"""A provider whose API is a real HTTP server on the loopback, which a test can make misbehave at any step."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ficha import Ficha, JobContext
from ficha.providers import (
    BadCallback,
    Provider,
    ProviderCall,
    ProviderFailed,
    ProviderHttp,
    ProviderResult,
    ProviderStatus,
    ProviderSucceeded,
    ProviderWorking,
    ReceivedCallback,
    RemoteFile,
)
from tests.support.receiver import Received, Receiver, Reply
from tests.support.waiting import until

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
"""A PNG of one red pixel."""
SECRET = "only the loopback provider knows this one"  # noqa: S105 (of a test)
OUR_SECRET = "the secret of the deployment under test"  # noqa: S105 (of a test)
PUBLIC_URL = "https://ficha.test"


class LoopbackServer(Receiver):
    """Starts work once for each key, and keeps it until it is told how it went.

    starts: every request to start, answered or not. works: by reference, how it stands. cancelled: references.
    asked: each time the state of work was asked for. fetched: files. answering: awaited before an answer goes out, with
    what it is to. faults: answers to give instead, by what they are to, each once.
    """

    def __init__(self) -> None:
        super().__init__(self._answered)
        self.starts: list[dict[str, Any]] = []
        self.works: dict[str, dict[str, Any]] = {}
        self.cancelled: list[str] = []
        self.asked: list[str] = []
        self.answering: Callable[[str, str], Awaitable[None]] | None = None
        self.faults: dict[str, list[Reply | None]] = {}
        self.fetched: list[str] = []
        self._refs: dict[str, str] = {}

    @property
    def keys(self) -> list[str]:
        """The keys under which work was begun; each is there once."""
        return list(self._refs)

    def succeed(
        self, ref: str, output: Any = "done", files: list[dict[str, Any]] | None = None, cost: float | None = None
    ) -> None:
        self.works[ref] = {"status": "succeeded", "output": output, "files": files or [], "cost": cost}

    def fail(self, ref: str, error: str, final: bool = True, cost: float | None = None) -> None:
        self.works[ref] = {"status": "failed", "error": error, "final": final, "cost": cost}

    async def _answered(self, request: Received, writer: asyncio.StreamWriter) -> Reply | None:
        what, _, ref = request.path.removeprefix("/").partition("/")
        match what:
            case "start":
                asked = json.loads(request.body)
                ref = self._refs.setdefault(asked["key"], f"ref-{len(self._refs) + 1}")
                self.starts.append({**asked, "ref": ref, "headers": request.headers})
                self.works.setdefault(ref, {"status": "working"})
                answer: dict[str, Any] = {"ref": ref}
            case "work":
                self.asked.append(ref)
                answer = {name: value for name, value in self.works[ref].items() if name not in ("output", "files")}
            case "result":
                answer = self.works[ref]
            case "file":
                self.fetched.append(ref)
                return self.faults["file"].pop(0) if self.faults.get("file") else Reply(body=PICTURE)
            case _:
                self.cancelled.append(ref)
                answer = {}
        if self.answering is not None:
            await self.answering(what, ref)
        if self.faults.get(what):
            return self.faults[what].pop(0)
        return Reply(body=json.dumps(answer).encode())

    def callback(self, ref: str, secret: str = SECRET) -> tuple[dict[str, str], bytes]:
        """The headers and the body of a call-back about work as it stands."""
        body = json.dumps({"ref": ref, **self.works[ref]}).encode()
        return {"X-Loopback-Signature": _signature(body, secret)}, body


def _signature(body: bytes, secret: str) -> str:
    return hmac.digest(secret.encode(), body, hashlib.sha256).hex()


class LoopbackProvider(Provider):
    takes_keys = True
    signs_callbacks = True

    def __init__(self, url: str, name: str = "loopback", **options: Any) -> None:
        super().__init__(name, **{"poll_s": 600.0, "timeout_s": 10.0} | options)
        self._url = url

    async def start(
        self, http: ProviderHttp, call: ProviderCall, *, callback_url: str | None, key: str, correlation_id: str | None
    ) -> str:
        asked = {"target": call.target, "input": call.input, "callback": callback_url, "key": key}
        ref: str = (await http.json("POST", f"{self._url}start", json=asked))["ref"]
        return ref

    async def status(self, http: ProviderHttp, ref: str) -> ProviderStatus:
        return _status(await http.json("GET", f"{self._url}work/{ref}"))

    async def result(self, http: ProviderHttp, ref: str) -> ProviderResult:
        found = _status(await http.json("GET", f"{self._url}result/{ref}"))
        assert isinstance(found, ProviderSucceeded)
        assert found.result is not None
        return found.result

    async def cancel(self, http: ProviderHttp, ref: str) -> None:
        await http.request("POST", f"{self._url}cancel/{ref}")

    async def verify(self, http: ProviderHttp, callback: ReceivedCallback) -> ProviderStatus | None:
        if not self.signs_callbacks:
            return None
        if callback.headers.get("x-loopback-signature") != _signature(callback.body, SECRET):
            raise BadCallback("the signature is wrong")
        return _status(json.loads(callback.body))

    def refs(self, callback: ReceivedCallback) -> str | None:
        try:
            ref = json.loads(callback.body).get("ref")
        except (ValueError, AttributeError, RecursionError):
            return None
        return ref if isinstance(ref, str) else None


class SilentProvider(LoopbackProvider):
    """One that signs nothing and takes no keys."""

    takes_keys = False
    signs_callbacks = False


def _status(work: Mapping[str, Any]) -> ProviderStatus:
    match work["status"]:
        case "succeeded" if "output" in work:
            files = tuple(RemoteFile(**file) for file in work.get("files", ()))
            return ProviderSucceeded(ProviderResult(work["output"], files, work.get("cost")))
        case "succeeded":
            return ProviderSucceeded()
        case "failed":
            return ProviderFailed(work["error"], work.get("final", True), work.get("cost"))
        case _:
            return ProviderWorking(work.get("progress"))


def studio(url: str, provider: Provider, kind: type[Ficha] = Ficha, **settings: Any) -> Ficha:
    """An application with one provider tool."""
    app = kind(
        url,
        **{"sweep_s": 0.02, "secret": OUR_SECRET, "public_url": PUBLIC_URL, "allow_addresses": ["127.0.0.0/8"]}
        | settings,
    )

    @app.provider_tool(provider, cost=5, timeout=60, attempts=2, backoff=0.01, backoff_max=0.01)
    async def draw(job: JobContext, prompt: str = "a cat") -> ProviderCall:
        return ProviderCall("painter", {"prompt": prompt})

    return app


@asynccontextmanager
async def working(app: Ficha) -> AsyncIterator[None]:
    """A worker beside the block."""
    worker = asyncio.create_task(app.run_worker())
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def submitted(app: Ficha) -> str:
    await app.open_account("ana", credits=100, exist_ok=True)
    return (await app.submit("draw", {}, account="ana", correlation_id="trace-7")).job_id


async def in_state(app: Ficha, job_id: str, *statuses: str) -> Any:
    async def look() -> Any:
        job = await app.job(job_id)
        return job if job.status in statuses else None

    return await until(look, what=f"job {job_id} is one of {statuses}")


async def ended(app: Ficha, job_id: str) -> Any:
    return await in_state(app, job_id, "completed", "failed", "cancelled")


def token_of(start: Mapping[str, Any]) -> str:
    return str(start["callback"]).rpartition("/")[2]


async def money(app: Ficha) -> list[tuple[str, int]]:
    page = await app.ledger("ana")
    return [(entry.kind, entry.amount) for entry in reversed(page.items)]


async def kinds(app: Ficha, job_id: str) -> list[str]:
    return [event.kind for event in await app.events(job=job_id)]
