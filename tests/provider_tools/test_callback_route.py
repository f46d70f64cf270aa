"""Call-backs over HTTP: taken without a key, by their token and their provider's signature; never answered by 500."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from ficha import Ficha
from ficha.operations.provider_jobs import DIVIDED_BYTES, kept_body
from ficha.providers import Provider, ProviderError, ProviderHttp, ProviderStatus, ReceivedCallback
from ficha.server import Settings
from ficha.storable import clean_text
from ficha.store.base import Unavailable
from tests.provider_tools.loopback import (
    OUR_SECRET,
    PUBLIC_URL,
    LoopbackProvider,
    LoopbackServer,
    SilentProvider,
    ended,
    studio,
    submitted,
    working,
)
from tests.support.waiting import until


@asynccontextmanager
async def site(
    url: str, provider: Provider, server: LoopbackServer, *, works: bool = True
) -> AsyncIterator[tuple[Ficha, httpx.AsyncClient, str, str]]:
    """The application served, a caller without a key, a job that its provider has, and its call-back's path."""
    app = studio(url, provider)
    asgi = app.asgi(Settings(secret=OUR_SECRET))
    async with app, httpx.AsyncClient(transport=httpx.ASGITransport(asgi), base_url=PUBLIC_URL) as anybody:
        job_id = await submitted(app)
        async with working(app):
            await until(lambda: _is_awaiting(app, job_id))
            if works:
                yield app, anybody, job_id, path_of(server)
        if not works:
            yield app, anybody, job_id, path_of(server)


async def _is_awaiting(app: Ficha, job_id: str) -> bool:
    return (await app.job(job_id)).provider_ref is not None


def path_of(server: LoopbackServer) -> str:
    return str(server.starts[0]["callback"]).removeprefix(PUBLIC_URL)


@pytest.mark.req("A12")
async def test_a_call_back_finishes_its_job_without_a_key(url: str, server: LoopbackServer) -> None:
    async with site(url, LoopbackProvider(server.url()), server) as (app, anybody, job_id, path):
        server.succeed("ref-1")
        headers, body = server.callback("ref-1")
        for _ in range(2):
            taken = await anybody.post(path, headers=headers, content=body)
            assert (taken.status_code, taken.json()) == (200, {"received": True})
            assert (await ended(app, job_id)).status == "completed"
        assert (await app.job(job_id)).callbacks == 2


async def test_an_address_that_is_not_ours_answers_alike_whatever_is_wrong_with_it(server: LoopbackServer) -> None:
    async with site("memory:", LoopbackProvider(server.url()), server) as (app, anybody, job_id, path):
        _, _, _, provider, token = path.split("/")
        found = [
            await anybody.post(f"/api/webhooks/{name}", content=b"{}")
            for name in (f"other/{token}", f"{provider}/{token}x", f"{provider}/x", f"{provider}/{token[:-1]}", "x/y")
        ]
        assert {answer.status_code for answer in found} == {404}
        problems = [{**answer.json(), "correlation_id": ""} for answer in found]
        assert all(problem == problems[0] for problem in problems)
        # A large body is not even read.
        assert (await anybody.post("/api/webhooks/x/y", content=b"x" * 900_000)).status_code == 404
        assert (await app.job(job_id)).callbacks == 0


MALFORMED: list[dict[str, str]] = [
    {},
    {"x-loopback-signature": ""},
    {"x-loopback-signature": "é".encode().decode("latin-1")},
    {"x-loopback-signature": "v1," * 1_000},
    {"content-type": "text/html; charset=\xff"},
]


@pytest.mark.parametrize("headers", MALFORMED, ids=range(len(MALFORMED)))
@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\x00", b"[" * 50_000, b"null", b'{"ref": 7, "status": {}}'],
    ids=["", "ff", "deep", "null", "odd"],
)
async def test_a_forged_or_malformed_call_back_is_401_and_an_unsigned_one_a_reason_to_ask(
    server: LoopbackServer, headers: dict[str, str], body: bytes
) -> None:
    sent = {name: value.encode("latin-1") for name, value in headers.items()}
    async with site("memory:", LoopbackProvider(server.url()), server) as (app, anybody, job_id, path):
        forged = await anybody.post(path, headers=sent, content=body)
        assert (forged.status_code, forged.json()["code"]) == (401, "UNAUTHENTICATED")
        assert ((await app.job(job_id)).status, (await app.job(job_id)).callbacks) == ("running", 1)
    async with LoopbackServer() as other, site("memory:", SilentProvider(other.url()), other) as found:
        app, anybody, job_id, path = found
        assert (await anybody.post(path, headers=sent, content=body)).status_code == 200


ODD = ["a\\u0000b", "\\ud800", "x\\ud83d y", "\\udfff\\ud800"]
"""In JSON: NUL, and halves of surrogate pairs."""


@pytest.mark.req("A12")
@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
async def test_texts_that_no_database_stores_fail_no_call_back(url: str, server: LoopbackServer, text: str) -> None:
    async with site(url, SilentProvider(server.url()), server) as (app, anybody, job_id, path):
        sent = {"user-agent": "\x80\xff".encode("latin-1"), "webhook-id": b"m\x80"}
        body = f'{{"ref": "{text}", "{text}": "{text}"}}'.encode()
        taken = await anybody.post(path, headers=sent, content=body)
        assert taken.status_code == 200, taken.text
        [kept] = [event for event in await app.events(job=job_id) if event.kind == "callback"]
        assert "�" in kept.data["about"]
        server.succeed("ref-1")
        assert (await anybody.post(path, content=b'{"ref": "ref-1"}')).status_code == 200
        assert (await ended(app, job_id)).status == "completed"


@pytest.mark.req("A4", "A12")
@pytest.mark.parametrize("way", ["call-back", "poll"])
@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
async def test_a_providers_words_are_kept_but_for_what_cannot_be_stored(
    url: str, server: LoopbackServer, text: str, way: str
) -> None:
    words = json.loads(f'"the picture {text} is too dark"')
    # Without a signature, a call-back only causes a poll.
    kind = LoopbackProvider if way == "call-back" else SilentProvider
    async with site(url, kind(server.url()), server) as (app, anybody, job_id, path):
        server.fail("ref-1", words)
        headers, body = server.callback("ref-1")
        assert (await anybody.post(path, headers=headers, content=body)).status_code == 200
        job = await ended(app, job_id)
        assert job.status == "failed"
        assert job.user_error == clean_text(words)
        assert job.user_error.startswith("the picture ")
        assert job.user_error.endswith(" is too dark")


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
async def test_a_result_is_delivered_without_what_cannot_be_stored(url: str, server: LoopbackServer, text: str) -> None:
    odd = json.loads(f'"{text}"')
    async with site(url, LoopbackProvider(server.url()), server) as (app, anybody, job_id, path):
        server.succeed("ref-1", {odd: [odd, 1]}, [{"url": server.url("/file/x.png"), "name": f"{odd}.png"}])
        headers, body = server.callback("ref-1")
        assert (await anybody.post(path, headers=headers, content=body)).status_code == 200
        job = await ended(app, job_id)
        assert (job.status, job.error) == ("completed", None)
        assert job.result["output"] == {clean_text(odd): [clean_text(odd), 1]}


async def test_a_body_that_is_too_large_is_refused(server: LoopbackServer) -> None:
    async with site("memory:", SilentProvider(server.url()), server) as (app, anybody, job_id, path):
        assert (await anybody.post(path, content=b"x" * 10_000_000)).status_code == 413
        assert (await app.job(job_id)).callbacks == 0


async def test_what_cannot_be_stored_now_is_503_so_that_the_provider_tries_again(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = LoopbackProvider(server.url())
    async with site("memory:", provider, server, works=False) as (app, anybody, job_id, path):
        server.succeed("ref-1")
        headers, body = server.callback("ref-1")

        async def away(command: Any) -> Any:
            raise Unavailable("the database is away")

        with monkeypatch.context() as patched:
            patched.setattr(app.engine, "call", away)
            answer = await anybody.post(path, headers=headers, content=body)
            assert (answer.status_code, answer.json()["retryable"]) == (503, True)
        assert (await anybody.post(path, headers=headers, content=body)).status_code == 200
        await app.run_worker(burst=True)
        assert (await app.job(job_id)).status == "completed"


class Unverifiable(LoopbackProvider):
    """Its keys cannot be had, or its own code fails."""

    def __init__(self, url: str, error: Exception) -> None:
        super().__init__(url)
        self._error = error

    async def verify(self, http: ProviderHttp, callback: ReceivedCallback) -> ProviderStatus | None:
        raise self._error

    def refs(self, callback: ReceivedCallback) -> str | None:
        raise self._error


@pytest.mark.parametrize("error", [ProviderError("no keys"), ValueError("a defect"), RecursionError()], ids=type)
async def test_what_cannot_be_checked_now_is_kept_and_leads_to_a_question(
    server: LoopbackServer, error: Exception
) -> None:
    async with site("memory:", Unverifiable(server.url(), error), server) as (app, anybody, job_id, path):
        server.succeed("ref-1", "the truth")
        assert (await anybody.post(path, content=b'{"status": "succeeded", "output": "a lie"}')).status_code == 200
        job = await ended(app, job_id)
        assert (job.status, job.result["output"]) == ("completed", "the truth")
        [kept] = [event for event in await app.events(job=job_id) if event.kind == "callback"]
        assert kept.data["verdict"] == "unread"


async def test_the_owner_of_a_job_does_not_see_what_the_provider_sent(server: LoopbackServer) -> None:
    async with site("memory:", SilentProvider(server.url()), server) as (app, anybody, job_id, path):
        await anybody.post(path, content=b'{"internal": "canary"}')
        key = (await app.create_api_key("ana", account="ana")).secret
        told = await anybody.get(
            f"/api/jobs/{job_id}/events",
            headers={"Authorization": f"Bearer {key}", "Accept": "application/json"},
        )
        assert [event["kind"] for event in told.json()["items"]].count("callback") == 1
        assert "canary" not in told.text
        operator = (await app.create_api_key("boss", scope="admin")).secret
        shown = await anybody.get(
            f"/api/jobs/{job_id}/events",
            headers={"Authorization": f"Bearer {operator}", "Accept": "application/json"},
        )
        assert "canary" in json.dumps(shown.json())


def test_a_large_body_is_searched_for_secrets_only_as_far_as_it_is_kept() -> None:
    """What is kept has no secret in it, also where a cut divides one."""
    most = 1_000
    for before in range(most - 60, most + DIVIDED_BYTES + 60):
        for secret in ("sk-0123456789abcdefghij", "https://ana:s3cr3t-s3cr3t@db.example/"):
            kept = kept_body(b"x" * before + b" " + secret.encode() + b" y" * 2_000, most)
            assert len(kept) <= most
            assert "0123456789" not in kept
            assert "s3cr3t" not in kept
    spent = time.thread_time()
    kept_body(b'{"token": "abcdef"} ' * 500_000, most)
    assert time.thread_time() - spent < 0.05
