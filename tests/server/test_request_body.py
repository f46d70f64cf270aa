"""How long a body of any shape keeps the thread that reads it, and what comes of it."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Awaitable, Generator
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect

from ficha import Ficha, JobContext, Limits, Plan, Pool, Refused
from ficha.core.payload import CheckedJson
from ficha.garbage import uncollected
from ficha.requests import BatchRequest, SubmitRequest
from ficha.server import Settings, batch_body, body_thread
from ficha.server.body_thread import BodyThread
from ficha.server.body_values import converted
from ficha.server.problems import EdgeError
from ficha.server.request_body import read_large
from ficha.server.strict_json import strict_json
from ficha.server.wire import WorkerFinishBody
from tests.support.server_process import SECRET

SLICE_S = 1.0
LOOP_S = 0.2
"""The rules are a second for a slice on the thread and 50 ms for the event loop. Both are processor time, so the second
has room for a slow machine only. What is quadratic takes many seconds at these sizes."""
EXAMPLES = settings().max_examples // 6
UNITS = [
    *(b"1", b"-0", b"null", b'""', b"[]", b"{}", b"[0]", b'{"a":0}', b" 1 ", b'{"a":0,"a":0}', b"nonsense", b'"'),
    *(b"1e308", b"1.7976931348623157e-300", b"1e400", b"0.1e-99999999", b"9" * 4_299, b"9" * 4_301, b"0." + b"1" * 800),
    *(b'"\\u0041\\n"', b'"\\ud83d\\ude00"', b'"\\ud800"', b'"\xff"', '"é😀"'.encode(), b'"' + b"\\\\" * 50 + b'"'),
    *(b"[" * 60 + b"]" * 60, b'{"a":' * 60 + b"0" + b"}" * 60, b"[" * 2_000 + b"]" * 2_000),
]


def filled(units: list[bytes], size: int, form: str) -> bytes:
    """A document of about this size: the units over and over, as a list, as an object, or as one string."""
    count = size // (sum(map(len, units)) + (12 if form != "list" else 1) * len(units)) + 1
    every = units * count
    if form == "list":
        return b"[" + b",".join(every) + b"]"
    if form == "string":
        return b'"' + b"".join(unit.strip(b'"') for unit in every) + b'"'
    members = [b'"%09x":%b' % (number, unit) for number, unit in enumerate(every)]
    if form == "repeated":
        members.append(members[-1])
    return b"{" + b",".join(members) + b"}"


documents = st.builds(
    filled,
    st.lists(st.sampled_from(UNITS), min_size=1, max_size=3),
    st.just(100_000),
    st.sampled_from(["list", "object", "repeated", "string"]),
)


def slices(text: bytes, kind: Any, most: int = 1_048_576) -> Any:
    """The body; every slice of the work is timed."""
    reading: Generator[None, None, Any] = read_large(text, kind, Limits(), most)
    while True:
        began = time.thread_time()
        try:
            next(reading)
        except StopIteration as end:
            return end.value
        finally:
            assert time.thread_time() - began < SLICE_S


@asynccontextmanager
async def opened() -> AsyncIterator[Ficha]:
    app = Ficha("memory://", plans=[Plan("open")], pools=[Pool("cpu")])

    @app.tool(pool="cpu")
    async def anything(job: JobContext, **given: Any) -> None: ...

    @app.tool(pool="cpu")
    async def numbers(job: JobContext, x: list[int]) -> None: ...

    @app.tool(pool="cpu", items="x", max_items=2)
    async def split(job: JobContext, x: list[int]) -> None: ...

    async with app:
        await app.open_account("ana")
        yield app


@given(document=documents, tool=st.sampled_from(["anything", "numbers"]))
@settings(max_examples=EXAMPLES)
@example(filled([b"0"], 200_000, "repeated"), "anything")
@example(filled([b"1e308"], 100_000, "list"), "anything")
@example(filled([b"[]"], 100_000, "list"), "numbers")
def test_no_shape_keeps_the_thread_or_the_event_loop(document: bytes, tool: str) -> None:
    payload = b'{"x":' + document + b"}"
    submit = b'{"account":"ana","tool":"' + tool.encode() + b'","payload":' + payload + b"}"
    item = b'{"tool":"' + tool.encode() + b'","payload":' + payload + b"}"
    finish = b'{"job_id":"x","epoch":1,"outcome":"completed","result":' + document + b"}"

    async def send() -> None:
        async with opened() as app:
            with suppress(Refused, EdgeError):
                await _timed(app.submit_request(slices(submit, SubmitRequest)))
            with suppress(Refused, EdgeError):
                await _timed(app.submit_batch_request(slices(b'{"account":"ana","items":[%b]}' % item, BatchRequest)))
            with suppress(Refused, EdgeError):
                await _timed(_completed(app, slices(finish, WorkerFinishBody)))

    asyncio.run(send())


async def _completed(app: Ficha, asked: WorkerFinishBody) -> None:
    app.completed(asked.result, None, None)


async def _timed(call: Awaitable[Any]) -> None:
    """What is left to do on the event loop once the body was read."""
    began = time.thread_time()
    try:
        await call
    finally:
        assert time.thread_time() - began < LOOP_S


@pytest.mark.long
@pytest.mark.parametrize("form", ["list", "object", "repeated", "string"])
def test_no_shape_of_the_largest_size_keeps_the_thread(form: str) -> None:
    for unit in UNITS:
        document = filled([unit], 1_000_000, form)
        items = filled([unit], 200_000, form)
        with suppress(Refused, EdgeError):
            slices(b'{"tool":"a","payload":{"x":%b}}' % document, SubmitRequest)
        with suppress(Refused, EdgeError):
            every = b",".join([b'{"tool":"a","payload":{"x":%b}}' % items] * (2_000_000 // len(items)))
            slices(b'{"items":[%b]}' % every, BatchRequest)


def test_a_repeated_key_among_many_is_found_in_one_pass() -> None:
    names = ",".join(f'"{number:x}":0' for number in range(100_000))
    began = time.thread_time()

    with pytest.raises(EdgeError, match="the key '1869f' is repeated"):
        strict_json(f'{{{names},"1869f":0}}'.encode())

    # Compared one by one, they would take a hundred times as long.
    assert time.thread_time() - began < 2


def same(text: str, window: int) -> tuple[Any, Any]:
    """What a batch is by the parser alone, and item by item; None if it is refused."""

    def told(read: Any) -> Any:
        try:
            return read()
        except (Refused, EdgeError):
            return None

    def whole() -> Any:
        return converted(strict_json(text.encode()), BatchRequest)

    return told(whole), told(lambda: slices(text.encode(), BatchRequest, window))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
items = st.fixed_dictionaries(
    {"tool": st.text(min_size=1, max_size=3)},
    optional={"payload": st.dictionaries(st.text(max_size=3), json_values, max_size=3)},
)
batches = st.fixed_dictionaries(
    {"items": st.lists(items, max_size=6)},
    optional={"session": st.text(max_size=3), "key_ttl_hours": json_values, "other": json_values},
)


@given(
    batch=batches,
    cut=st.integers(0, 200),
    put=st.sampled_from(["", ",", "}", "]", '"', "\\", " ", "1", "\\ud800", '"items":[],']),
    indent=st.sampled_from([None, 1]),
    window=st.integers(40, 80),
)
def test_a_batch_read_item_by_item_is_the_batch_that_was_sent(
    batch: dict[str, Any], cut: int, put: str, indent: int | None, window: int
) -> None:
    """Also where the window that the parser sees ends anywhere in the text, and where the text is broken anywhere."""
    text = json.dumps(batch, indent=indent)
    text = text if not put else text[:cut] + put + text[cut:]
    values = [*batch["items"], *(value for name, value in batch.items() if name != "items")]
    window += 2 * max((len(json.dumps(value, indent=4)) for value in values), default=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_body, "SLICE_CHARACTERS", 10)
        expected, found = same(text, window)
    if isinstance(found, BatchRequest) and isinstance(expected, BatchRequest):
        payloads = [item.payload for item in found.items]
        assert all(isinstance(payload, CheckedJson) for payload in payloads)
        for payload, item in zip(payloads, expected.items, strict=True):
            assert payload.problem is not None or json.loads(payload.text) == dict(item.payload)
        found = msgspec.structs.replace(found, items=expected.items)
    assert found == expected


def test_an_item_is_no_longer_than_a_single_submit() -> None:
    item = b'{"tool":"a","payload":{"x":"%b"}}'
    longest = item % (b"a" * (1_000 - len(item) + 2))
    assert len(longest) == 1_000

    text = b'{"items":[' + longest + b"," + longest + b"]}"
    assert len(slices(text, BatchRequest, 1_000).items) == 2
    with pytest.raises(Refused, match="an item is longer than 999 characters") as refused:
        slices(text, BatchRequest, 999)
    assert refused.value.code == "TOO_LARGE"


def test_no_more_items_are_read_than_a_batch_may_have() -> None:
    text = b'{"items":[' + b",".join([b'{"tool":"a"}'] * 10_001) + b",nonsense]}"

    with pytest.raises(Refused, match="more than 10000 jobs at once") as refused:
        slices(text, BatchRequest)
    assert refused.value.code == "TOO_LARGE"


class Caller:
    """A request whose caller leaves after so many questions whether they are there."""

    def __init__(self, leaves_after: int, account_id: str | None = None) -> None:
        self.left = leaves_after
        self.state = SimpleNamespace(account_id=account_id)

    async def is_disconnected(self) -> bool:
        self.left -= 1
        return self.left < 0


async def test_a_caller_who_has_left_gets_no_further_slice() -> None:
    thread, done = BodyThread(), []

    def read() -> Generator[None, None, None]:
        while True:
            done.append(1)
            yield

    try:
        with pytest.raises(ClientDisconnect):
            await thread.run(Caller(3), read)
    finally:
        thread.close()
    assert len(done) == 3


def test_garbage_is_collected_again_when_the_last_body_was_read() -> None:
    assert gc.isenabled()
    with uncollected:
        with uncollected:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


async def test_large_bodies_take_turns() -> None:
    thread, order = BodyThread(), []

    def read(name: str) -> Generator[None, None, str]:
        for _ in range(3):
            order.append(name)
            yield
        return name

    try:
        names = await asyncio.gather(*(thread.run(Caller(9), partial(read, name)) for name in "ab"))
    finally:
        thread.close()
    assert names == ["a", "b"]
    assert order == list("ababab")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock for the thread that reads bodies: it moves when somebody rests, and it is known for how long they did."""
    clock = SimpleNamespace(now=1_000.0, monotonic=lambda: clock.now, rested=[])

    async def sleep(seconds: float) -> None:
        clock.rested.append(round(seconds, 6))
        clock.now += seconds

    monkeypatch.setattr(body_thread, "time", clock)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    return clock


async def test_one_accounts_large_bodies_have_a_fifth_of_the_time_and_others_go_on(clock: SimpleNamespace) -> None:
    rested, thread = clock.rested, BodyThread()

    def read() -> Generator[None, None, None]:
        clock.now += 0.01
        yield
        clock.now += 0.02

    try:
        await thread.run(Caller(9, "ana"), read)
        assert rested == [0.04]
        await thread.run(Caller(9, "bob"), read)
        await thread.run(Caller(9), read)
        assert rested == [0.04, 0.04]
        clock.now += 0.01
        await thread.run(Caller(9, "bob"), read)
        # What went by meanwhile counts: 0.03 s for the key of no account, and 0.01 s.
        assert rested == [0.04, 0.04, 0.04, 0.04]
    finally:
        thread.close()


async def test_after_a_body_that_is_refused_the_accounts_next_one_waits_a_hundred_times_as_long(
    clock: SimpleNamespace,
) -> None:
    rested, thread = clock.rested, BodyThread()

    def refused() -> Generator[None, None, None]:
        clock.now += 0.01
        yield from strict_json(b'{"a": 1, "a": 2}')

    try:
        for expected in ([], [1.0], [1.0, 1.0]):
            with pytest.raises(EdgeError, match="repeated"):
                await thread.run(Caller(9, "ana"), refused)
            assert rested == expected
        # Who would wait for longer than two seconds is refused.
        clock.now -= 1.001
        with pytest.raises(Refused) as limited:
            await thread.run(Caller(9, "ana"), refused)
        assert (limited.value.code, rested) == ("RATE_LIMITED", expected)
        assert limited.value.retry_after_s == pytest.approx(2.001)
    finally:
        thread.close()


async def test_a_large_body_is_submitted_as_it_was_sent() -> None:
    numbers = list(range(30_000))
    async with opened() as app:
        secret = (await app.create_api_key("ana", account="ana")).secret
        transport = httpx.ASGITransport(app.asgi(Settings(secret=SECRET)))
        login = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=login) as client:
            sent = await client.post("/api/jobs", json={"tool": "numbers", "payload": {"x": numbers}})
            assert sent.status_code == 201, sent.text
            assert (await app.job(sent.json()["job_id"])).payload == {"x": numbers}
            parts = await client.post("/api/jobs", json={"tool": "split", "payload": {"x": numbers[:15_000]}})
            assert parts.json()["jobs"] == 7_500
            batch = await client.post(
                "/api/batches", json={"items": [{"tool": "numbers", "payload": {"x": numbers}}] * 2}
            )
            assert batch.json()["jobs"] == 2
            for payload, words in (
                ({"x": ["\0" * 50_000]}, "NUL"),
                ({"x": [2**60] * 5_000}, "2^53"),
                ({"x": ["a"] * 20_000}, "20000 problems"),
            ):
                refused = await client.post("/api/jobs", json={"tool": "numbers", "payload": payload})
                assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_PAYLOAD")
                assert words in refused.json()["detail"]
