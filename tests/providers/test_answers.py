"""Answers that no provider should give: whatever they hold, a provider's methods return what they promise or raise
`ProviderError`."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct

from ficha.providers import (
    Fal,
    GenericProvider,
    Provider,
    ProviderCall,
    ProviderError,
    ProviderFailed,
    ProviderHttp,
    ProviderResult,
    ProviderSucceeded,
    ProviderWorking,
    Replicate,
    RequestTemplate,
    RunningHub,
    StateFields,
)
from ficha.providers.json_paths import MOST_FOUND, all_found, found, is_web_address, number_at, text_at


class Reply(Struct):
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = {}


class Sender:
    """Answers every request with the same."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    async def request(self, *_: Any, **__: Any) -> Reply:
        return self.reply


PRICE = {"price_per_s": 0.5}
PROVIDERS: list[tuple[Provider, ProviderCall]] = [
    (Replicate("key", **PRICE), ProviderCall("a/b", {})),
    (Fal("key", **PRICE), ProviderCall("a/b", {})),
    (RunningHub("key", price_per_coin=0.5), ProviderCall("7", {"1.image": "data:,"}, {"upload": ["1.image"]})),
    (
        GenericProvider(
            "generic",
            start=RequestTemplate(url="https://p.example/"),
            ref="id",
            status=RequestTemplate(url="https://p.example/{ref}"),
            cancel=RequestTemplate(url="https://p.example/{ref}"),
            fields=StateFields(
                state="status",
                working=("starting",),
                succeeded=("succeeded",),
                failed=("failed",),
                files="output.*",
                cost="cost",
                progress="progress",
                position="queue_position",
            ),
        ),
        ProviderCall("x", {}),
    ),
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["https://replicate.delivery/a", "https://[", "http://x:99999999", "nan", "-1", "1e999"]),
)
NAMES = st.sampled_from(
    [
        *("id", "status", "output", "error", "data_removed", "metrics", "predict_time"),
        *("request_id", "response_url", "queue_position", "inference_time"),
        *("images", "url", "content_type", "file_name"),
        *("code", "msg", "data", "taskId", "fileName", "fileUrl", "fileType", "consumeCoins", "failedReason"),
    ]
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=5)),
    max_leaves=15,
)
STATED = st.builds(
    lambda base, status, code: {**base, "status": status, "code": code},
    st.dictionaries(NAMES, JSON, max_size=6),
    st.sampled_from(["starting", "succeeded", "failed", "canceled", "aborted", "IN_QUEUE", "COMPLETED"]),
    st.sampled_from([0, 804, 805, 813, 421, 802, 301, 1000, "0", None]),
)


@given(answer=st.one_of(JSON, STATED))
@example(answer={"id": "x" * 256, "request_id": "x" * 256, "code": 0, "data": {"taskId": "x" * 256}})
@example(answer={"id": "a b", "request_id": "../..", "code": 0, "data": {"taskId": "\x00", "fileName": "f"}})
@example(answer={"id": 10**400, "status": "succeeded", "metrics": {"predict_time": 10**400}, "code": 0, "data": []})
@example(answer={"status": "IN_QUEUE", "queue_position": 1e300})
@example(answer={"code": [], "data": []})
@example(answer={"code": False, "data": []})
async def test_whatever_is_answered_ends_in_what_was_promised_or_in_one_error(answer: Any) -> None:
    http = ProviderHttp(Sender(Reply(json.dumps(answer).encode())))
    for provider, call in PROVIDERS:
        ref = await _or_none(provider.start(http, call, callback_url=None, key="k", correlation_id=None))
        assert ref is None or (isinstance(ref, str) and 1 <= len(ref) <= 255 and ref.isprintable())
        status = await _or_none(provider.status(http, "a/b/requests/7"))
        assert isinstance(status, ProviderWorking | ProviderSucceeded | ProviderFailed | None)
        if isinstance(status, ProviderFailed):
            assert 1 <= len(status.error) <= 2_000
        result = await _or_none(provider.result(http, "a/b/requests/7"))
        for made in (result, getattr(status, "result", None)):
            assert isinstance(made, ProviderResult | ProviderFailed | None)
            if made is not None:
                assert made.cost is None or 0 <= made.cost < float("inf")
                assert all(is_web_address(file.url) for file in getattr(made, "files", ()))
        assert await _or_none(provider.cancel(http, "a/b/requests/7")) is None


async def _or_none(call: Any) -> Any:
    try:
        return await call
    except ProviderError as error:
        assert error.message  # noqa: PT017 (an error is one of two right ends)
        return None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b", 1),
        ("a.c", None),
        ("list.0", "x"),
        ("list.1.y", 2),
        ("list.2", None),
        ("list.-1", None),
        ("list.\u0660", None),
        ("list.99999999999999999999", None),
        ("a.b.c", None),
        ("*.b", 1),
        ("", None),
    ],
)
def test_a_path_finds_what_is_there(path: str, value: Any) -> None:
    assert found({"a": {"b": 1, "c": None}, "list": ["x", {"y": 2}]}, path) == value


def test_a_path_with_a_star_finds_a_bounded_number() -> None:
    assert all_found({"a": [{"b": [1, 2]}, {"b": 3}, {}]}, "a.*.b") == [1, 2, 3]
    assert len(all_found({"a": [[0] * 2_000] * 3}, "a.*")) == MOST_FOUND


def test_texts_and_numbers_are_only_what_they_are() -> None:
    for value, text, number in (
        ("7", "7", 7.0),
        (7, "7", 7.0),
        (0, "0", 0.0),
        (True, None, None),
        ("", None, None),
        ("-1", "-1", None),
        ("inf", "inf", None),
        ("nan", "nan", None),
        ([], None, None),
    ):
        assert (text_at({"v": value}, "v"), number_at({"v": value}, "v")) == (text, number)


@pytest.mark.parametrize(
    "value",
    ["ftp://x/a", "https://", "//x", "https://x /a", "https://[", "https:x", 7, None, "https://x/" + "a" * 5_000],
)
def test_what_is_no_web_address_is_told(value: Any) -> None:
    assert not is_web_address(value)
    assert is_web_address("https://x.example/a?b#c")
