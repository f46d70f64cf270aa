"""Streams of server-sent events, as the generators and the answer give them: nothing lost, nothing twice, in order."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from msgspec import Struct
from starlette.requests import Request
from starlette.types import Message

from ficha import Ficha, Lease, Plan, Pool, Refused
from ficha.engine import event_tail, position_watch
from ficha.engine.views import owner_event_view
from ficha.server import streams
from ficha.server.guard import Call
from ficha.server.identity import Caller, Identity, api_keys
from ficha.server.settings import Settings
from ficha.server.streams import KEEP_ALIVE, RECONNECT, EventStream, await_end, follow_account, follow_job
from ficha.server.usage import UnderWay, Usage
from ficha.store import base
from ficha.store.base import Store, Unavailable
from ficha.store.commits import commit_of
from ficha.store.memory import MemoryStore
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from tests.engine.instrumented_store import InstrumentedStore
from tests.support.postgres_databases import emptied
from tests.support.waiting import until

SECRET = "TgYQ3MvH0sTzB5kqjXw1c9fRrL8uZeNd"  # noqa: S105 (for the tests alone)
NEVER = 3_600.0
"""A time that no test waits for."""


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ficha]:
    """An application on a fresh database of each kind."""
    async with AsyncExitStack() as stack:
        store: Store = MemoryStore()
        if request.param == "sqlite":
            store = SqliteStore(tmp_path / "ficha.db")
            await store.migrate()
        elif request.param == "postgresql":
            store = PostgresStore(await stack.enter_async_context(emptied(request.getfixturevalue("shared_database"))))
        yield await stack.enter_async_context(opened(store))


@pytest.fixture
async def memory() -> AsyncIterator[Ficha]:
    """The same where the database's kind does not matter."""
    async with opened(MemoryStore()) as app:
        yield app


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Ficha]:
    app = Ficha(
        store=InstrumentedStore(store), plans=[Plan("open")], pools=[Pool("gpu", slots=1)], sweep_by_itself=False
    )

    @app.tool(pool="gpu", cost=1, attempts=3, backoff=0.001)
    async def draw(job: object) -> None: ...

    @app.tool(cost=1)
    async def talk(job: object) -> None: ...

    async with app:
        await app.open_account("ana", credits=1_000)
        yield app


class Heard(Struct, frozen=True):
    """One message, as a browser reads it."""

    kind: str
    data: Any
    number: int | None = None
    retry: int | None = None


def read(text: bytes) -> list[Heard]:
    """Reads messages as the HTML standard says; comments are passed over."""
    found, fields, data = [], dict[str, str](), list[str]()
    assert text.endswith(b"\n\n")
    for line in text.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]:
        name, _, value = line.partition(":")
        if line == "":
            if data:
                number, retry = fields.get("id"), fields.get("retry")
                found.append(
                    Heard(
                        fields["event"],
                        json.loads("\n".join(data)),
                        # The end's id is no number of an event.
                        None if number is None or fields["event"] == "end" else int(number),
                        None if retry is None else int(retry),
                    )
                )
            fields, data = {}, []
        elif name == "data":
            data.append(value.removeprefix(" "))
        elif name:
            fields[name] = value.removeprefix(" ")
    return found


class Client:
    """Reads a stream message by message."""

    def __init__(self, stream: AsyncGenerator[bytes, None]) -> None:
        self.stream = stream
        self._waiting: list[Heard] = []

    async def next(self) -> Heard:
        async with asyncio.timeout(20):
            while not self._waiting:
                self._waiting = read(await anext(self.stream))
        return self._waiting.pop(0)

    async def until(self, *kinds: str) -> list[Heard]:
        """The messages up to the first of one of these kinds."""
        found = [await self.next()]
        while found[-1].kind not in kinds:
            found.append(await self.next())
        return found

    async def rest(self) -> list[Heard]:
        """All messages until the stream ends."""
        async with asyncio.timeout(20):
            return [*self._waiting, *[one async for text in self.stream for one in read(text)]]


async def talking(app: Ficha) -> Lease:
    """A job that runs."""
    await app.submit("talk", account="ana")
    [lease] = await app.claim("default", worker="w1", starts=True)
    return lease


def kinds(found: list[Heard]) -> list[str]:
    return [one.kind for one in found]


async def test_an_ended_job_is_told_whole(app: Ficha) -> None:
    lease = await talking(app)
    await app.note(lease, "so far")
    await app.finish(lease, {"image": "x"})
    found = await Client(follow_job(app, lease.job_id)).rest()
    assert kinds(found) == ["submitted", "claimed", "started", "log", "completed", "job", "end"]
    told = await app.events(job=lease.job_id)
    assert [one.number for one in found[:5]] == [event.number for event in told]
    assert [one.number for one in found[5:]] == [None, None]
    assert found[3].data["data"] == {"text": "so far"}
    assert found[3].data["job_id"] == lease.job_id
    for one in found[5:]:
        assert (one.data["id"], one.data["status"], one.data["result"]) == (
            lease.job_id,
            "completed",
            {"image": "x"},
        )
    again = await Client(follow_job(app, lease.job_id, told[2].number)).rest()
    assert again == found[3:]


async def test_a_stream_goes_on_live_until_the_job_has_ended(app: Ficha) -> None:
    job_id = (await app.submit("talk", account="ana")).job_id
    client = Client(follow_job(app, job_id))
    assert kinds(await client.until("job")) == ["submitted", "job"]
    [lease] = await app.claim("default", worker="w1", starts=True)
    assert kinds(await client.until("started")) == ["claimed", "started"]
    for line in ("one", "two"):
        await app.note(lease, line)
        assert (await client.next()).data["data"] == {"text": line}
    await app.fail(lease, "no", final=True, for_user=True)
    found = await client.rest()
    assert kinds(found) == ["failed", "end"]
    assert (found[1].data["status"], found[1].data["error"], found[1].data["refunded"]) == ("failed", "no", 1)


@pytest.mark.parametrize("most", [20, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize("of", ["job", "account"])
async def test_a_client_cut_again_and_again_at_random_sees_every_event_once_and_in_order(
    app: Ficha, of: str, most: int
) -> None:
    random = Random(of)
    lease, other = await talking(app), await talking(app)
    seen: list[Heard] = []

    async def write() -> None:
        for number in range(3 * most):
            await app.note(other if random.random() < 0.3 else lease, f"line {number}")
            await asyncio.sleep(random.choice((0, 0, 0.001)))
        await app.finish(other)
        await app.finish(lease)

    def stream() -> AsyncGenerator[bytes, None]:
        after = seen[-1].number or 0 if seen else 0
        return follow_job(app, lease.job_id, after) if of == "job" else follow_account(app, "ana", after)

    def is_done() -> bool:
        return writing.done() and sum(one.kind == "completed" for one in seen) == (1 if of == "job" else 2)

    writing = asyncio.create_task(write())
    cuts = 0
    async with asyncio.timeout(60):
        while not is_done() or cuts < most:
            cuts += 1
            current = stream()
            try:
                # Cut after so many parts, in the middle of one, or while it waits for the next.
                for _ in range(random.randrange(4)):
                    async with asyncio.timeout(random.choice((0.001, 0.01, 0.1))):
                        found = [one for one in read(await anext(current)) if one.number is not None]
                    seen += found[: random.randrange(len(found) + 1)] if random.random() < 0.3 else found
                    if found and seen[-1:] != found[-1:]:
                        break  # the last ones got lost, perhaps before any other was seen
            except (TimeoutError, StopAsyncIteration):
                pass
            finally:
                await current.aclose()
    await writing
    told = await app.events(limit=1_000, **({"job": lease.job_id} if of == "job" else {"account": "ana"}))
    assert [one.number for one in seen] == [event.number for event in told]
    assert [(one.kind, one.data["data"]) for one in seen] == [
        (event.kind, owner_event_view(event).data) for event in told
    ]
    assert cuts >= most


async def test_who_resumes_an_account_after_too_much_has_happened_is_told_so(
    app: Ficha, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await app.finish(await talking(app))
    numbers = [event.number for event in await app.events(account="ana", limit=1_000)]
    monkeypatch.setattr(base, "EVENTS_SEARCHED", 5)
    first = await app.engine.store.read(base.GetFirstSearched())
    searched = [number for number in numbers if commit_of(number) >= first]
    assert 5 <= len(searched) < len(numbers)
    last = Client(follow_account(app, "ana", searched[0]))
    assert [(await last.next()).number for _ in searched[1:]] == searched[1:]
    late = Client(follow_account(app, "ana", numbers[-len(searched) - 1]))
    assert await late.next() == Heard("missed", {})
    assert [(await late.next()).number for _ in searched] == searched
    assert [event.number for event in await app.events(account="ana")] == searched
    for client in (last, late):
        await client.stream.aclose()


async def test_who_resumes_an_account_after_a_commit_that_was_cleared_away_is_told_so(
    memory: Ficha, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await memory.finish(await talking(memory))
    numbers = [event.number for event in await memory.events(account="ana", limit=1_000)]
    monkeypatch.setattr(base, "COMMITS_PRUNED", 3)
    await memory.engine.store.tidy(-1_000)
    kept = [event.number for event in await memory.events(account="ana", limit=1_000)]
    assert kept == numbers[-len(kept) :]
    assert len(kept) < len(numbers)
    for after, is_told in ((0, True), (numbers[-len(kept) - 1], True), (kept[0], False)):
        client = Client(follow_account(memory, "ana", after))
        if is_told:
            assert await client.next() == Heard("missed", {})
        assert (await client.next()).number == kept[0 if is_told else 1]
        await client.stream.aclose()


async def test_text_that_looks_like_a_message_stays_text(app: Ficha) -> None:
    lease = await talking(app)
    evil = "a\n\nid: 7\nevent: end\ndata: {}\r\n\r\n: \u2028\u2029\x85 \x1f 😀"
    await app.note(lease, evil)
    await app.finish(lease, {evil: evil})
    parts = [text async for text in follow_job(app, lease.job_id)]
    found = [one for text in parts for one in read(text)]
    assert kinds(found) == ["submitted", "claimed", "started", "log", "completed", "job", "end"]
    assert found[3].data["data"]["text"] == evil
    assert found[6].data["result"] == {evil: evil}
    for line in b"".join(parts).split(b"\n"):
        assert line == b"" or line.startswith((b"id: ", b"event: ", b"data: {")), line
    assert b"\r" not in b"".join(parts)


async def test_those_who_wait_are_told_where_they_stand_as_it_changes(
    app: Ficha, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position_watch, "EVERY_S", 0.01)
    jobs = [(await app.submit("draw", account="ana")).job_id for _ in range(3)]
    client = Client(follow_job(app, jobs[2]))
    [*_, job] = await client.until("job")
    assert (job.data["position"], job.data["waiting_for"]) == (3, "place")
    await app.cancel(jobs[0])
    told = await client.next()
    assert (told.kind, told.number) == ("position", None)
    assert (told.data["position"], told.data["waiting_for"]) == (2, "place")
    assert told.data.keys() == {"position", "estimated_wait_s", "waiting_for"}
    await app.pause_pool("gpu")
    assert (await client.next()).data["waiting_for"] == "pool_paused"
    await app.resume_pool("gpu")
    assert (await client.next()).data["waiting_for"] == "place"
    [lease] = await app.claim("gpu", worker="w1", starts=True)
    assert lease.job_id == jobs[1]
    [told] = [await client.next()]
    while told.data != {"position": 1, "estimated_wait_s": told.data["estimated_wait_s"], "waiting_for": "pool_full"}:
        assert told.kind == "position"
        told = await client.next()
    await app.finish(lease)
    [lease] = await app.claim("gpu", worker="w1", starts=True)
    assert set(kinds(await client.until("claimed"))) <= {"position", "claimed"}
    await app.finish(lease)
    assert kinds(await client.rest()) == ["started", "completed", "end"]


async def test_a_job_that_comes_back_to_the_queue_is_told_where_it_stands_again(
    app: Ficha, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position_watch, "EVERY_S", 0.01)
    job_id = (await app.submit("draw", account="ana")).job_id
    client = Client(follow_job(app, job_id))
    await client.until("job")
    [lease] = await app.claim("gpu", worker="w1", starts=True)
    await app.retry(lease, 0.05)
    # That it waits for its time may be noticed before the events that led to it are told.
    found = [await client.next() for _ in range(4)]
    assert [kind for kind in kinds(found) if kind != "position"] == ["claimed", "started", "retried"]
    [told] = [one for one in found if one.kind == "position"]
    assert (told.data["position"], told.data["waiting_for"]) == (None, "schedule")
    asked = asyncio.create_task(client.next())
    while not asked.done():
        await app.sweep()
        await asyncio.sleep(0)
    told = await asked
    assert (told.data["position"], told.data["waiting_for"]) == (1, "place")
    await app.cancel(job_id)
    assert kinds(await client.rest())[-2:] == ["cancelled", "end"]


async def test_many_who_wait_cost_no_question_each(memory: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_watch, "EVERY_S", 0.005)
    store: Any = memory.engine.store
    jobs = [(await memory.submit("draw", account="ana")).job_id for _ in range(60)]
    later = (await memory.submit("draw", account="ana", delay_s=NEVER)).job_id
    clients = [Client(follow_job(memory, job_id)) for job_id in (*jobs, later)]
    for client in clients:
        await client.until("job")
    waiting = [asyncio.create_task(client.next()) for client in clients]
    # Those who came before the tail's first look read once more.
    followers = memory.engine.live._followers()
    await store.until(lambda: store.reads["GetHorizon"] > 1 and not any(one.holds_back() for one in followers))
    before = store.reads.copy()
    await store.until(lambda: store.reads["GetWaiting"] > before["GetWaiting"] + 10)
    asked = store.reads - before
    # A sweep may fall into it, and a look at the hooks of others.
    swept = {"GetDue", "ListDueFiles", "GetFigurePoint", "ListFigures", "ListOldRollups", "GetQueueCounts"}
    swept |= {"ListBrakes", "ListDeclaredHooks"}
    assert set(asked) <= {"GetWaiting", "ListPools", "GetHorizon"} | swept
    assert sum(asked.values()) < 60
    await memory.cancel(jobs[0])
    told = [await task for task in waiting[:-1]]
    assert kinds(told) == ["cancelled", *["position"] * 59]
    assert [one.data["position"] for one in told[1:]] == list(range(1, 60))
    assert not waiting[-1].done()
    waiting[-1].cancel()
    await asyncio.gather(waiting[-1], return_exceptions=True)
    for client in clients:
        await client.stream.aclose()
    assert not memory.queries.watch._watched
    assert memory.queries.watch._timer is None


async def test_a_quiet_stream_says_that_it_is_alive(memory: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE_S", 0.01)
    lease = await talking(memory)
    for stream in (follow_job(memory, lease.job_id), follow_account(memory, "ana")):
        found = [await anext(stream) for _ in range(4)]
        assert found[-2:] == [KEEP_ALIVE, KEEP_ALIVE]
        assert read(KEEP_ALIVE) == []
        await stream.aclose()


async def test_at_the_end_of_the_process_streams_ask_to_be_begun_anew(app: Ficha) -> None:
    lease = await talking(app)
    clients = [Client(follow_job(app, lease.job_id)), Client(follow_account(app, "ana"))]
    for client in clients:
        await client.until("started")
    rests = [asyncio.create_task(client.rest()) for client in clients]
    await asyncio.sleep(0)
    app.engine.live.close()
    for found in await asyncio.gather(*rests):
        assert found[-1] == Heard("reconnect", {}, None, 1000)


async def test_a_database_that_goes_away_ends_a_stream_with_a_hint(memory: Ficha) -> None:
    store: Any = memory.engine.store
    lease = await talking(memory)
    store.read_fault = Unavailable("gone")
    for stream in (follow_job(memory, lease.job_id), follow_account(memory, "ana")):
        assert [text async for text in stream] == [RECONNECT]


# Waiting for the end


async def test_whoever_waits_for_the_end_gets_it_when_it_comes(app: Ficha) -> None:
    lease = await talking(app)
    asked = [asyncio.create_task(await_end(app, lease.job_id, NEVER)) for _ in range(20)]
    await asyncio.sleep(0.1)
    assert not any(task.done() for task in asked)
    await app.finish(lease, 7)
    async with asyncio.timeout(20):
        for job in await asyncio.gather(*asked):
            assert job is not None
            assert (job.status, job.result) == ("completed", 7)
        ended = await await_end(app, lease.job_id, NEVER)
    assert ended is not None
    assert ended.status == "completed"


async def test_whoever_waits_for_too_long_gets_the_job_as_it_is(memory: Ficha) -> None:
    lease = await talking(memory)
    for timeout_s in (0.0, 0.01):
        job = await await_end(memory, lease.job_id, timeout_s)
        assert job is not None
        assert job.status == "running"
    asked = asyncio.create_task(await_end(memory, lease.job_id, NEVER))
    await asyncio.sleep(0)
    memory.engine.live.close()
    job = await asked
    assert job is not None
    assert job.status == "running"


async def test_those_who_wait_for_the_end_ask_nothing_meanwhile(memory: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_tail, "POLL_S", 0.001)
    monkeypatch.setattr(event_tail, "PACE_S", 0.0)
    store: Any = memory.engine.store
    lease = await talking(memory)
    asked = [asyncio.create_task(await_end(memory, lease.job_id, NEVER)) for _ in range(50)]
    await store.until(lambda: store.reads["GetHorizon"] > 5)
    before = store.reads.copy()
    await store.until(lambda: store.reads["GetHorizon"] > before["GetHorizon"] + 20)
    assert set(store.reads - before) == {"GetHorizon"}
    await memory.finish(lease)
    await asyncio.gather(*asked)


async def test_a_database_that_is_away_does_not_turn_a_submit_into_an_error(memory: Ficha) -> None:
    store: Any = memory.engine.store
    lease = await talking(memory)
    store.read_fault = Unavailable("gone")
    assert await await_end(memory, lease.job_id, NEVER) is None


# The answer


class Wire:
    """What a server does with an answer: takes what is sent, and tells when the client is gone."""

    def __init__(self, app: Ficha, *, most: int = 10, **limits: int) -> None:
        self.identity = Identity(app, Settings(secret=SECRET))
        settings = Settings(secret=SECRET, streams=most, **limits)
        self.under_way = UnderWay(settings)
        state = SimpleNamespace(settings=settings, identity=self.identity)
        self.scope: dict[str, Any] = {"type": "http", "headers": [], "app": SimpleNamespace(state=state)}
        self.app = app
        self.caller = Caller("user", "ana")
        self.sent: asyncio.Queue[Message] = asyncio.Queue()
        self.is_gone = asyncio.Event()
        self.takes = asyncio.Event()
        self.takes.set()

    def answer(self, stream: AsyncGenerator[bytes, None]) -> EventStream:
        usage = Usage(self.under_way)
        usage.begin(self.caller)
        scope = {**self.scope, "state": {"usage": usage}}
        return EventStream(Call(Request(scope), self.app, self.caller), stream)

    def begin(self, stream: AsyncGenerator[bytes, None]) -> asyncio.Task[None]:
        return asyncio.create_task(self.answer(stream)(self.scope, self._receive, self._send))

    async def _receive(self) -> Message:
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self.takes.wait()
        self.sent.put_nowait(message)

    async def next(self) -> Message:
        async with asyncio.timeout(20):
            return await self.sent.get()


async def test_an_answer_is_sent_as_it_comes_and_kept_by_nobody(memory: Ficha) -> None:
    lease = await talking(memory)
    await memory.finish(lease)
    wire = Wire(memory)
    await wire.begin(follow_job(memory, lease.job_id))
    start = await wire.next()
    assert start["status"] == 200
    assert dict(start["headers"]) == {
        b"content-type": b"text/event-stream; charset=utf-8",
        b"cache-control": b"no-store",
        b"x-accel-buffering": b"no",
    }
    text = b""
    while (part := await wire.next())["more_body"]:
        text += part["body"]
    assert part["body"] == b""
    assert kinds(read(text))[-1] == "end"
    assert EventStream.running == 0


async def test_a_stream_ends_when_its_client_is_gone(memory: Ficha) -> None:
    lease = await talking(memory)
    for stream in (follow_job(memory, lease.job_id), follow_account(memory, "ana")):
        wire = Wire(memory)
        answering = wire.begin(stream)
        await wire.next()
        assert b"submitted" in (await wire.next())["body"]
        assert EventStream.running == 1
        wire.is_gone.set()
        async with asyncio.timeout(20):
            await answering
        assert EventStream.running == 0
        assert memory.engine.live._followers() == []


async def ended(wire: Wire, answering: asyncio.Task[None]) -> Heard:
    """The last message of a stream that has ended in good order."""
    async with asyncio.timeout(20):
        await answering
    sent = [wire.sent.get_nowait() for _ in range(wire.sent.qsize())]
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    return read(sent[-2]["body"])[-1]


@pytest.mark.parametrize("of", ["job", "account"])
async def test_a_stream_ends_when_its_credential_expires(memory: Ficha, of: str) -> None:
    lease = await talking(memory)
    wire = Wire(memory)
    wire.caller = Caller("user", "ana", expires_at=time.time() + 0.2)
    answering = wire.begin(follow_job(memory, lease.job_id) if of == "job" else follow_account(memory, "ana"))
    await wire.next()
    told = await ended(wire, answering)
    assert (told.kind, told.data["code"], told.data["retryable"]) == ("refused", "UNAUTHENTICATED", False)
    assert "expired" in told.data["detail"]
    assert memory.engine.live._followers() == []


async def test_a_credential_that_expired_within_the_leeway_opens_no_stream(memory: Ficha) -> None:
    wire = Wire(memory)
    wire.caller = Caller("user", "ana", expires_at=time.time() - 1)
    with pytest.raises(Refused, match="expired") as caught:
        wire.answer(follow_account(memory, "ana"))
    assert caught.value.code == "UNAUTHENTICATED"


@pytest.mark.parametrize("scope", ["user", "job"])
@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_stream_ends_when_its_key_is_revoked(
    app: Ficha, where: str, scope: Literal["user", "job"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job token ends with the key that it was made with. Elsewhere, only the database tells of the revocation."""
    monkeypatch.setattr(api_keys, "WATCH_S", 0.02)
    monkeypatch.setattr(api_keys, "WATCH_NEW_S", 0.01)
    lease = await talking(app)
    key, other = [(await app.create_api_key(name, account="ana")).key for name in ("one", "other")]
    wire, beside = Wire(app), Wire(app)
    wire.caller = Caller(scope, "ana", key_id=key.id)
    beside.caller = Caller(scope, "ana", key_id=other.id)
    answering, going_on = (one.begin(follow_job(app, lease.job_id)) for one in (wire, beside))
    await wire.next()
    await app.revoke_api_key(key.id)
    if where == "here":
        wire.identity.forget(key.id)
    told = await ended(wire, answering)
    assert (told.kind, told.data["code"]) == ("refused", "UNAUTHENTICATED")
    assert "revoked" in told.data["detail"]
    assert not going_on.done()
    beside.is_gone.set()
    await going_on
    await asyncio.gather(wire.identity.close(), beside.identity.close())


async def test_many_streams_cost_one_question_about_their_keys(memory: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_keys, "WATCH_S", 0.02)
    monkeypatch.setattr(api_keys, "WATCH_NEW_S", 0.01)
    store: Any = memory.engine.store
    wire = Wire(memory, most=100)
    keys = [(await memory.create_api_key(f"key {number}", account="ana")).key.id for number in range(20)]
    answering = []
    for key in keys:
        wire.caller = Caller("user", "ana", key_id=key)
        answering.append(wire.begin(follow_account(memory, "ana")))
    for _ in keys:
        await wire.next()
    before = store.reads["GetRevokedApiKeys"]
    await store.until(lambda: store.reads["GetRevokedApiKeys"] >= before + 5)
    store.read_fault = Unavailable("gone")
    await store.until(lambda: store.reads["GetRevokedApiKeys"] >= before + 8)
    store.read_fault = None
    assert store.reads["GetRevokedApiKeys"] < before + 20
    wire.is_gone.set()
    await asyncio.gather(*answering)
    await until(lambda: wire.identity._keys._watching is None)


async def test_a_stream_whose_credential_ends_in_the_middle_of_a_message_is_cut_off(memory: Ficha) -> None:
    lease = await talking(memory)
    wire = Wire(memory)
    wire.caller = Caller("user", "ana", expires_at=time.time() + 0.2)
    answering = wire.begin(follow_job(memory, lease.job_id))
    await wire.next()
    wire.takes.clear()
    await memory.note(lease, "a message that nobody takes")
    async with asyncio.timeout(20):
        await answering
    assert not any(b"refused" in message["body"] for message in wire.sent._queue)  # type: ignore[attr-defined]
    assert EventStream.running == 0


async def test_an_account_has_so_many_streams_and_an_operator_others(memory: Ficha) -> None:
    wire = Wire(memory, most=100, account_streams=2, operator_streams=3)
    open_streams = []
    for caller, most in ((Caller("user", "ana"), 2), (Caller("user", "bob"), 2), (Caller("service", key_id="k"), 3)):
        wire.caller = caller
        for _ in range(most):
            open_streams.append(wire.begin(follow_account(memory, "ana")))
            await wire.next()
        with pytest.raises(Refused, match=f"may have {most} live streams") as caught:
            wire.answer(follow_account(memory, "ana"))
        assert (caught.value.code, caught.value.retryable) == ("RATE_LIMITED", True)
        assert caught.value.retry_after_s is not None
    # Other tokens of an account are the same account.
    wire.caller = Caller("job", "ana", "a job", key_id="another")
    with pytest.raises(Refused, match="this account may have 2 live streams"):
        wire.answer(follow_account(memory, "ana"))
    wire.is_gone.set()
    await asyncio.gather(*open_streams)


async def test_a_process_that_is_told_to_stop_its_answers_leaves_nothing_behind(memory: Ficha) -> None:
    lease = await talking(memory)
    wire = Wire(memory)
    answering = wire.begin(follow_job(memory, lease.job_id))
    await wire.next()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    assert EventStream.running == 0
    assert memory.engine.live._followers() == []


async def test_more_streams_than_a_process_takes_are_refused_before_they_begin(memory: Ficha) -> None:
    lease = await talking(memory)
    wire = Wire(memory, most=2)
    answering = [wire.begin(follow_account(memory, "ana")) for _ in range(2)]
    for _ in range(2):
        await wire.next()
    with pytest.raises(Refused, match="2 live streams already") as caught:
        wire.answer(follow_job(memory, lease.job_id))
    assert (caught.value.code, caught.value.retryable) == ("OVERLOADED", True)
    assert caught.value.retry_after_s is not None
    wire.is_gone.set()
    await asyncio.gather(*answering)
    assert wire.answer(follow_job(memory, lease.job_id)).status_code == 200
