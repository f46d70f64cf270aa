"""Call-backs: real ones of the simulator are believed, all others are refused by `BadCallback` and nothing else."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct
from standardwebhooks.webhooks import Webhook

from ficha.outbound import Outbound
from ficha.providers import (
    BadCallback,
    CallbackFields,
    Fal,
    GenericProvider,
    HmacSignature,
    Provider,
    ProviderError,
    ProviderFailed,
    ProviderHttp,
    ProviderSucceeded,
    ProviderWorking,
    ReceivedCallback,
    Replicate,
    RequestTemplate,
    RunningHub,
    StandardSignature,
    StateFields,
)
from ficha.providers.signatures import KEPT_S, PAUSE_S, PublishedKeys, ed25519_keys, fits_hmac, fits_standard_webhook
from tests.providers.kinds import KINDS, Kind, as_callback, http_over, started, task_of
from tests.support.provider_simulator import Receiver, Simulated

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 (published)
SIGNED_AT = 1_614_265_330
PUBLISHED = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": str(SIGNED_AT),
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
"""The vector that the libraries of Standard Webhooks are tested with."""
PUBLISHED_BODY = b'{"test": 2432232314}'


@pytest.fixture(params=[name for name in KINDS if name != "runninghub"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Those that sign."""
    return KINDS[request.param]


@pytest.fixture
async def http() -> AsyncIterator[ProviderHttp]:
    outbound = Outbound()
    yield http_over(outbound)
    await outbound.close()


class Nobody:
    """Whoever asks the provider fails the test."""

    async def request(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nothing must be asked")


NOBODY = ProviderHttp(Nobody())


def published(**headers: str | None) -> ReceivedCallback:
    changed = {name: value for name, value in {**PUBLISHED, **headers}.items() if value is not None}
    return ReceivedCallback(headers=changed, body=PUBLISHED_BODY, received_at=SIGNED_AT)


# What the simulator sends


async def test_a_call_back_of_the_provider_is_believed(
    kind: Kind, simulator: Simulated, callbacks: Receiver, http: ProviderHttp, picture: str
) -> None:
    provider = kind.of(simulator)
    ref = await started(provider, http, kind.call(picture), f"{callbacks.url}/t")
    simulator.task(fail="too dark")
    failed = await started(provider, http, kind.call(picture), f"{callbacks.url}/f", key="j:1")
    callbacks.until(2)
    for received in callbacks.received:
        callback = as_callback(received)
        status = await provider.verify(http, callback)
        assert provider.refs(callback) == task_of(ref if received.path == "/t" else failed)
        if received.path == "/t":
            assert isinstance(status, ProviderSucceeded)
            assert status.result.files == (await provider.result(http, ref)).files != ()
        else:
            assert isinstance(status, ProviderFailed)
            assert (status.error, status.final) == ("too dark", True)


async def test_forged_changed_and_old_call_backs_are_refused(
    kind: Kind, simulator: Simulated, callbacks: Receiver, http: ProviderHttp, picture: str
) -> None:
    provider = kind.of(simulator)
    simulator.task(forge=True)
    ref = await started(provider, http, kind.call(picture), f"{callbacks.url}/t")
    (forged,) = callbacks.until(1)
    with pytest.raises(BadCallback, match="does not fit"):
        await provider.verify(http, as_callback(forged))
    simulator.callback(task_of(ref))
    true = callbacks.until(2)[1]
    assert isinstance(await provider.verify(http, as_callback(true)), ProviderSucceeded)
    changed = as_callback(true)
    changed = ReceivedCallback(changed.headers, changed.body.replace(b"png", b"exe"), changed.received_at)
    with pytest.raises(BadCallback, match="does not fit"):
        await provider.verify(http, changed)
    if kind.name == "plain":
        return  # it signs no time
    # A call-back from the future grows older on its way, so it is further off than it must be.
    for age in (301, -360):
        simulator.callback(task_of(ref), age=age)
        with pytest.raises(BadCallback, match="300 seconds"):
            await provider.verify(http, as_callback(callbacks.received[-1]))
    # What came in time can be looked at again much later.
    kept = as_callback(true)
    for later in (kept, ReceivedCallback(kept.headers, kept.body, kept.received_at)):
        assert await provider.verify(http, later) is not None


async def test_runninghubs_call_backs_are_not_believed_but_name_their_task(
    simulator: Simulated, callbacks: Receiver, http: ProviderHttp, picture: str
) -> None:
    kind = KINDS["runninghub"]
    provider = kind.of(simulator)
    ref = await started(provider, http, kind.call(picture), f"{callbacks.url}/t")
    callback = as_callback(callbacks.until(1)[0])
    assert await provider.verify(NOBODY, callback) is None
    assert (provider.refs(callback), provider.signs_callbacks) == (ref, False)


async def test_the_keys_of_call_backs_are_fetched_once_even_by_many_at_a_time(
    simulator: Simulated, callbacks: Receiver, http: ProviderHttp, picture: str
) -> None:
    for number, name in enumerate(("replicate", "fal"), 1):
        provider = KINDS[name].of(simulator)
        await started(provider, http, KINDS[name].call(picture), f"{callbacks.url}/t")
        callback = as_callback(callbacks.until(number)[-1])
        await asyncio.gather(*(provider.verify(http, callback) for _ in range(20)))
        await provider.verify(http, callback)
        assert len(simulator.log("keys")) == number


async def test_keys_that_cannot_be_fetched_are_our_failure_and_not_the_call_backs(
    simulator: Simulated, callbacks: Receiver, http: ProviderHttp, picture: str
) -> None:
    for number, name in enumerate(("replicate", "fal"), 1):
        provider = KINDS[name].of(simulator)
        await started(provider, http, KINDS[name].call(picture), f"{callbacks.url}/t")
        callback = as_callback(callbacks.until(number)[-1])
        for fault in ("500", "html", "garbage", "close"):
            simulator.answer(fault, on="keys")
            with pytest.raises(ProviderError):
                await provider.verify(http, callback)
        assert isinstance(await provider.verify(http, callback), ProviderSucceeded)


async def test_with_a_price_fals_call_back_is_a_reason_to_ask(
    simulator: Simulated, callbacks: Receiver, http: ProviderHttp, picture: str
) -> None:
    provider = KINDS["fal"].of(simulator, price_per_s=1.0)
    ref = await started(provider, http, KINDS["fal"].call(picture), f"{callbacks.url}/t")
    assert await provider.verify(http, as_callback(callbacks.until(1)[0])) is None
    assert (await provider.status(http, ref)).result.cost is not None


# Standard Webhooks


def test_the_published_signature_fits() -> None:
    assert fits_standard_webhook(published(), [SECRET])
    # While one secret replaces another, either side may have several.
    two = "v1,AAAA v2,xyz " + PUBLISHED["webhook-signature"]
    assert fits_standard_webhook(published(**{"webhook-signature": two}), [SECRET])
    assert fits_standard_webhook(published(), ["whsec_" + base64.b64encode(b"x" * 24).decode(), SECRET])


@pytest.mark.parametrize("away_s", [300, -300])
def test_a_time_stamp_may_be_five_minutes_away(away_s: int) -> None:
    came = ReceivedCallback(PUBLISHED, PUBLISHED_BODY, SIGNED_AT + away_s)
    assert fits_standard_webhook(came, [SECRET])
    came = ReceivedCallback(PUBLISHED, PUBLISHED_BODY, SIGNED_AT + away_s + (1 if away_s > 0 else -1))
    with pytest.raises(BadCallback, match="300 seconds"):
        fits_standard_webhook(came, [SECRET])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("webhook-id", None),
        ("webhook-id", ""),
        ("webhook-timestamp", None),
        ("webhook-timestamp", "1614265330.0"),
        ("webhook-timestamp", "1e9"),
        ("webhook-timestamp", "-1614265330"),
        ("webhook-timestamp", "٣"),
        ("webhook-timestamp", "9" * 400),
        ("webhook-signature", None),
    ],
)
def test_malformed_headers_are_refused(name: str, value: str | None) -> None:
    with pytest.raises(BadCallback):
        fits_standard_webhook(published(**{name: value}), [SECRET])


@pytest.mark.parametrize(
    "signature",
    ["v1", "v1,", "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "v2,g0hM9SsE", "v1,g0hM,x", " ", "v1,é"],
)
def test_a_signature_of_another_form_does_not_fit(signature: str) -> None:
    assert not fits_standard_webhook(published(**{"webhook-signature": signature}), [SECRET])


async def test_a_prediction_is_read_from_a_signed_call_back() -> None:
    provider = Replicate("key", webhook_secret=SECRET)

    async def told(**prediction: Any) -> Any:
        return await provider.verify(NOBODY, signed_by_standard(json.dumps({"id": "p", **prediction}).encode()))

    assert isinstance(await told(status="processing"), ProviderWorking)
    assert await told(status="failed", error="NSFW content detected") == ProviderFailed("NSFW content detected")
    assert (await told(status="aborted")).final is False
    assert (await told(status="canceled")).final is True
    assert (await told(status="succeeded", output=None, data_removed=True)).final is False
    with pytest.raises(BadCallback):
        await told(status="exploded")


async def test_only_addresses_of_the_providers_own_hosts_are_files() -> None:
    """A model that writes text can write an address, which nobody should fetch."""
    provider = Replicate("key", webhook_secret=SECRET)
    ours = ["https://replicate.delivery/a/out.png", "https://pbxt.replicate.delivery/b.webm"]
    others = ["https://evil.example/c", "https://replicate.delivery.evil.example/d", "text", "https://"]
    for output, urls in (
        ([*ours, *others], ours),
        ({"mask": ours[0], "text": others[0]}, ours[:1]),
        (ours[1], ours[1:]),
        (others[0], []),
        ([{"frames": ours}], ours),
    ):
        body = json.dumps({"id": "p", "status": "succeeded", "output": output}).encode()
        status = await provider.verify(NOBODY, signed_by_standard(body))
        assert [file.url for file in status.result.files] == urls, output


def signed_by_standard(body: bytes) -> ReceivedCallback:
    at = time.time()
    signature = Webhook(SECRET).sign("msg_1", datetime.fromtimestamp(at, UTC), body.decode())
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(at)), "webhook-signature": signature}
    return ReceivedCallback(headers, body, at)


# fal

FAL_KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"tests").digest())


class Answer(Struct):
    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = {}


class Publisher:
    """Answers each request for keys with those of now."""

    def __init__(self, *keys: Ed25519PrivateKey) -> None:
        self.keys = keys
        self.asked = 0

    async def request(self, method: str, url: str, **_: Any) -> Answer:
        self.asked += 1
        keys = [{"kty": "OKP", "crv": "Ed25519", "x": public(key)} for key in self.keys]
        return Answer(body=json.dumps({"keys": keys}).encode())


def public(key: Ed25519PrivateKey) -> str:
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed_by_fal(body: bytes, *, key: Ed25519PrivateKey = FAL_KEY, **changed: str) -> ReceivedCallback:
    at = int(time.time())
    message = f"r-1\nu-1\n{at}\n{hashlib.sha256(body).hexdigest()}"
    headers = {
        "x-fal-webhook-request-id": "r-1",
        "x-fal-webhook-user-id": "u-1",
        "x-fal-webhook-timestamp": str(at),
        "x-fal-webhook-signature": key.sign(message.encode()).hex(),
        **changed,
    }
    return ReceivedCallback(headers, body, at)


OK = b'{"request_id": "r-1", "status": "OK", "payload": {"text": "hello"}}'


async def test_a_new_key_of_fal_is_fetched_once_and_not_with_every_forgery() -> None:
    other = Ed25519PrivateKey.generate()
    publisher = Publisher(FAL_KEY)
    clock = [1_000.0]
    provider = Fal("key")
    provider._keys = PublishedKeys(provider._published_keys, clock=lambda: clock[0])
    http = ProviderHttp(publisher)
    assert isinstance(await provider.verify(http, signed_by_fal(OK)), ProviderSucceeded)
    for _ in range(5):
        with pytest.raises(BadCallback):
            await provider.verify(http, signed_by_fal(OK, key=other))
    assert publisher.asked == 1
    publisher.keys = (FAL_KEY, other)
    clock[0] += PAUSE_S
    assert isinstance(await provider.verify(http, signed_by_fal(OK, key=other)), ProviderSucceeded)
    assert publisher.asked == 2
    clock[0] += KEPT_S - 1
    await provider.verify(http, signed_by_fal(OK))
    assert publisher.asked == 2
    clock[0] += 1
    publisher.keys = (other,)
    with pytest.raises(BadCallback):
        await provider.verify(http, signed_by_fal(OK))
    assert publisher.asked == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"x-fal-webhook-request-id": "r-2"},
        {"x-fal-webhook-user-id": "u-2"},
        {"x-fal-webhook-user-id": ""},
        {"x-fal-webhook-timestamp": str(int(time.time()) - 10)},
        {"x-fal-webhook-timestamp": "now"},
        {"x-fal-webhook-signature": "00" * 64},
        {"x-fal-webhook-signature": "zz"},
        {"x-fal-webhook-signature": "0 " * 64},
    ],
)
async def test_nothing_that_fal_signed_can_be_changed(changed: dict[str, str]) -> None:
    with pytest.raises(BadCallback):
        await Fal("key").verify(ProviderHttp(Publisher(FAL_KEY)), signed_by_fal(OK, **changed))


async def test_what_fal_says_is_read_from_its_body() -> None:
    provider, http = Fal("key"), ProviderHttp(Publisher(FAL_KEY))

    async def told(**body: Any) -> Any:
        return await provider.verify(http, signed_by_fal(json.dumps({"request_id": "r-1", **body}).encode()))

    detail = {"detail": [{"loc": ["body", "prompt"], "msg": "field required", "type": "value_error.missing"}]}
    status = await told(status="ERROR", error="Invalid status code: 422", payload=detail)
    assert status == ProviderFailed("field required")
    crashed = {"detail": "Runner disconnected", "error_type": "runner_disconnected"}
    status = await told(status="ERROR", error="Invalid status code: 503", payload=crashed)
    assert status == ProviderFailed("Runner disconnected", final=False)
    assert await told(status="ERROR", error="it is late", payload=None) == ProviderFailed("it is late")
    assert await told(status="OK", payload=None, payload_error="not JSON") is None
    image = {"url": "https://v3.fal.media/files/a/out.png", "content_type": "image/png", "file_name": "a.png"}
    status = await told(status="OK", payload={"images": [image, image], "seen": "https://evil.example/x"})
    assert [(file.url, file.name, file.media_type) for file in status.result.files] == [
        (image["url"], "a.png", "image/png")
    ]
    for bad in ({"status": "LATER"}, {"status": "OK", "request_id": "r-2"}, {}):
        with pytest.raises(BadCallback):
            await told(**bad)


def test_keys_of_other_kinds_and_broken_ones_are_passed_over() -> None:
    good = {"kty": "OKP", "crv": "Ed25519", "x": public(FAL_KEY)}
    broken = [{"kty": "RSA", "n": "x"}, {"crv": "Ed25519", "x": "é"}, {"crv": "Ed25519", "x": "AAAA"}, 7, None]
    assert len(ed25519_keys({"keys": [*broken, good]})) == 1
    for jwks in ({"keys": broken}, {"keys": []}, {}, [], "x", None):
        with pytest.raises(ProviderError):
            ed25519_keys(jwks)


# HMAC

KEY = "any text"


@pytest.mark.parametrize("encoding", ["hex", "base64"])
@pytest.mark.parametrize("time_header", [None, "X-Time"])
def test_an_hmac_signature_fits(encoding: Any, time_header: str | None) -> None:
    terms = HmacSignature(header="X-Sig", secret=KEY, prefix="v=", encoding=encoding, time_header=time_header)
    at = int(time.time())
    digest = hmac.digest(KEY.encode(), (f"{at}.".encode() if time_header else b"") + b"body", "sha256")
    made = digest.hex() if encoding == "hex" else base64.b64encode(digest).decode()
    headers = {"x-sig": f"v={made}", "x-time": str(at)}
    assert fits_hmac(ReceivedCallback(headers, b"body", at), terms)
    assert not fits_hmac(ReceivedCallback(headers, b"other", at), terms)
    assert not fits_hmac(ReceivedCallback({**headers, "x-sig": made}, b"body", at), terms)
    if time_header:
        with pytest.raises(BadCallback):
            fits_hmac(ReceivedCallback(headers, b"body", at + 301), terms)


# Whatever comes


def generic(signature: Any) -> GenericProvider:
    fields = StateFields(state="s", working=("w",), succeeded=("d",), failed=("f",), files="files.*")
    return GenericProvider(
        "generic",
        start=RequestTemplate(url="https://p.example/"),
        ref="id",
        status=RequestTemplate(url="https://p.example/{ref}"),
        fields=fields,
        callback=CallbackFields(ref="task.*.id", signature=signature),
    )


ALL: list[Provider] = [
    Replicate("key", webhook_secret=SECRET),
    Replicate("key"),
    Fal("key"),
    RunningHub("key"),
    generic(None),
    generic(StandardSignature((SECRET,))),
    generic(HmacSignature(header="x-signature", secret=KEY, time_header="x-time")),
]
NAMES = [
    *PUBLISHED,
    *("x-fal-webhook-request-id", "x-fal-webhook-user-id", "x-fal-webhook-timestamp", "x-fal-webhook-signature"),
    *("x-signature", "x-time", "content-type"),
]
HEADERS = st.dictionaries(
    st.sampled_from(NAMES),
    st.one_of(
        st.text(max_size=80), st.just(str(SIGNED_AT)), st.just("00" * 64), st.sampled_from([*PUBLISHED.values()])
    ),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=10), inner, max_size=3)),
    max_leaves=10,
)
BODIES = st.one_of(st.binary(max_size=200), JSON.map(lambda value: json.dumps(value).encode()))
KEYS = ProviderHttp(Publisher(FAL_KEY))


@given(headers=HEADERS, body=BODIES)
@example(headers=PUBLISHED, body=b"\xff")
@example(headers=PUBLISHED, body=b"[" * 100_000)
@example(headers={**PUBLISHED, "webhook-id": "\ud800"}, body=b"{}")
async def test_no_headers_and_no_body_raise_anything_but_a_refusal(headers: dict[str, str], body: bytes) -> None:
    callback = ReceivedCallback(headers, body, SIGNED_AT)
    for provider in ALL:
        assert provider.refs(callback) is None or isinstance(provider.refs(callback), str)
        # Whose secret is not known asks for it; here, nobody has a good one.
        try:
            status = await provider.verify(KEYS, callback)
        except BadCallback:
            continue
        except ProviderError:
            assert isinstance(provider, Replicate)
            continue
        assert status is None
        assert not provider.signs_callbacks


@given(value=JSON)
@example(value={"status": "succeeded", "output": [[["https://[::1"]]], "metrics": {"predict_time": "nan"}})
@example(value={"request_id": "r-1", "status": "OK", "payload": {"images": [{"url": "https://[", "content_type": 7}]}})
async def test_no_body_that_is_signed_raises_anything_but_a_refusal(value: Any) -> None:
    """The provider may change what it sends, or have a fault."""
    bodies = [
        value,
        {"request_id": "r-1", "status": "OK", "payload": value},
        {"id": "x", "status": "succeeded", "output": value},
    ]
    for one in bodies:
        body = json.dumps(one).encode()
        for provider, http, callback in (
            (Fal("key"), KEYS, signed_by_fal(body)),
            (ALL[0], NOBODY, signed_by_standard(body)),
            (ALL[5], NOBODY, signed_by_standard(json.dumps({"s": "d", "files": one}).encode())),
        ):
            try:
                status = await provider.verify(http, callback)
            except BadCallback:
                continue
            assert status is None or isinstance(status, ProviderSucceeded | ProviderFailed | ProviderWorking)
