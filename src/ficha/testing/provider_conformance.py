"""The conformance suite of providers: what every provider class must do, tried out against a real server.

Subclass it in a test file, with one fixture, `trial`, that knows the provider and its server:

    class AcmeTrial(ProviderTrial):
        def __init__(self, server):
            self.server = server
            self.provider = Acme("token", base_url=server.url)
            self.call = ProviderCall("model", {"prompt": "a cat"})

        async def succeed(self, ref): self.server.tasks[ref].update(state="done", output="x")
        ...

    class TestAcme(ProviderConformance):
        @pytest.fixture
        async def trial(self):
            async with AcmeServer() as server:
                yield AcmeTrial(server)

The server is yours: a small one on the loopback that speaks the provider's API. The tests are coroutines;
pytest-asyncio runs them (`asyncio_mode = "auto"`, or `@pytest.mark.asyncio` on the class).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from ..declarations import name_problem
from ..outbound import Outbound, OutboundError
from ..providers import (
    BadCallback,
    Provider,
    ProviderBusy,
    ProviderCall,
    ProviderError,
    ProviderFailed,
    ProviderHttp,
    ProviderResult,
    ProviderSucceeded,
    ProviderWorking,
    ReceivedCallback,
)

CALLBACK_URL = "https://ficha.example/api/webhooks/trial/token"
WORDS = "the picture is too dark"
MALFORMED = (b"", b"null", b"[]", b"{", b"\xff\xfe\x00", b"[" * 10_000, b'{"id": {}, "status": 7, "data": "x"}')


class ProviderTrial:
    """A provider, a call that it understands, and control of its server. Headers of `callback` are as the server sends
    them.

    tells_time: whether the provider's call-backs are signed with their time, so that old ones are refused.
    """

    provider: Provider
    call: ProviderCall
    tells_time: bool = False

    async def succeed(self, ref: str) -> None:
        """Lets the server's work of this reference succeed."""
        raise NotImplementedError

    async def fail(self, ref: str, words: str) -> None:
        """Lets the server's work of this reference fail, with these words."""
        raise NotImplementedError

    async def begun(self) -> int:
        """How many pieces of work the server has begun."""
        raise NotImplementedError

    async def is_cancelled(self, ref: str) -> bool:
        """Whether the server was told to stop this work."""
        raise NotImplementedError

    async def answer_next(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Makes the server answer its next request, of any kind, with this."""
        raise NotImplementedError

    async def callback(self, ref: str) -> ReceivedCallback | None:
        """What the provider sends about this work in its present state; None if it does not call back."""
        raise NotImplementedError


@asynccontextmanager
async def trial_http(provider: Provider) -> AsyncIterator[ProviderHttp]:
    """HTTP for a provider's methods, also to addresses on this machine, without limits."""
    outbound = Outbound(("127.0.0.0/8", "::1/128", "localhost"))
    try:
        yield ProviderHttp(
            outbound, timeout_s=provider.timeout_s, errors=(OutboundError,), correlation_id="trial-correlation"
        )
    finally:
        await outbound.close()


async def started(trial: ProviderTrial, http: ProviderHttp, key: str = "job-1:0") -> str:
    return await trial.provider.start(
        http, trial.call, callback_url=CALLBACK_URL, key=key, correlation_id="trial-correlation"
    )


async def _raised(calling: Awaitable[Any]) -> BaseException | None:
    try:
        await calling
    except Exception as error:
        return error
    return None


class ProviderConformance:
    """All tests of the suite."""

    async def test_a_start_begins_one_piece_of_work_and_returns_a_reference_that_can_be_stored(
        self, trial: ProviderTrial
    ) -> None:
        async with trial_http(trial.provider) as http:
            ref = await started(trial, http)
            assert name_problem(ref, "the reference") is None
            assert await trial.begun() == 1
            assert isinstance(await trial.provider.status(http, ref), ProviderWorking)

    async def test_work_is_found_by_the_key_of_its_start_if_the_provider_says_so(self, trial: ProviderTrial) -> None:
        if not trial.provider.finds_work:
            return
        async with trial_http(trial.provider) as http:
            ref = await started(trial, http)
            assert await trial.provider.find(http, key="job-1:0", target=trial.call.target) == ref
            assert await trial.provider.find(http, key="job-1:1", target=trial.call.target) is None

    async def test_a_start_without_an_address_to_call_back_works_too(self, trial: ProviderTrial) -> None:
        async with trial_http(trial.provider) as http:
            await trial.provider.start(http, trial.call, callback_url=None, key="job-1:0", correlation_id=None)
            assert await trial.begun() == 1

    async def test_the_same_key_begins_the_work_once_if_the_provider_takes_keys(self, trial: ProviderTrial) -> None:
        async with trial_http(trial.provider) as http:
            refs = [await started(trial, http) for _ in range(2)]
            if trial.provider.takes_keys:
                assert refs[0] == refs[1]
                assert await trial.begun() == 1
            other = await started(trial, http, key="job-1:1")
            assert other not in refs

    async def test_work_that_is_done_has_a_result_that_can_be_stored(self, trial: ProviderTrial) -> None:
        async with trial_http(trial.provider) as http:
            ref = await started(trial, http)
            await trial.succeed(ref)
            for _ in range(2):
                status = await trial.provider.status(http, ref)
                assert isinstance(status, ProviderSucceeded)
                result = status.result or await trial.provider.result(http, ref)
                assert isinstance(result, ProviderResult)
                msgspec.json.encode(result.output)
                assert all(file.url.startswith(("http://", "https://", "data:")) for file in result.files)
                assert result.cost is None or result.cost >= 0

    async def test_work_that_failed_says_so_in_the_providers_own_words(self, trial: ProviderTrial) -> None:
        async with trial_http(trial.provider) as http:
            ref = await started(trial, http)
            await trial.fail(ref, WORDS)
            status = await trial.provider.status(http, ref)
            assert isinstance(status, ProviderFailed)
            assert WORDS in status.error

    async def test_two_pieces_of_work_are_kept_apart(self, trial: ProviderTrial) -> None:
        async with trial_http(trial.provider) as http:
            one, other = await started(trial, http, "job-1:0"), await started(trial, http, "job-2:0")
            await trial.succeed(one)
            found = await asyncio.gather(trial.provider.status(http, one), trial.provider.status(http, other))
            assert [type(status) for status in found] == [ProviderSucceeded, ProviderWorking]

    async def test_cancelling_tells_the_provider_and_may_be_repeated(self, trial: ProviderTrial) -> None:
        async with trial_http(trial.provider) as http:
            ref = await started(trial, http)
            await trial.provider.cancel(http, ref)
            assert await trial.is_cancelled(ref)
            await trial.provider.cancel(http, ref)

    async def test_cancelling_what_has_ended_is_no_error(self, trial: ProviderTrial) -> None:
        async with trial_http(trial.provider) as http:
            ref = await started(trial, http)
            await trial.succeed(ref)
            await trial.provider.cancel(http, ref)

    async def test_a_call_back_is_believed_if_it_is_signed_and_is_a_reason_to_ask_if_not(
        self, trial: ProviderTrial
    ) -> None:
        async with trial_http(trial.provider) as http:
            ref = await started(trial, http)
            await trial.succeed(ref)
            callback = await trial.callback(ref)
            if callback is None:
                return
            told = await trial.provider.verify(http, callback)
            assert isinstance(told, ProviderSucceeded) if trial.provider.signs_callbacks else told is None
            named = trial.provider.refs(callback)
            assert named is None or ref == named or ref.endswith(f"/{named}")
            assert named is None or trial.provider.full_ref(named, trial.call.target) == ref

    async def test_a_call_back_that_was_changed_is_not_believed(self, trial: ProviderTrial) -> None:
        async with trial_http(trial.provider) as http:
            ref = await started(trial, http)
            await trial.fail(ref, WORDS)
            callback = await trial.callback(ref)
            if callback is None or not trial.provider.signs_callbacks:
                return
            changed = msgspec.structs.replace(callback, body=callback.body + b" ")
            assert isinstance(await _raised(trial.provider.verify(http, changed)), BadCallback)
            bare = msgspec.structs.replace(callback, headers={})
            assert isinstance(await _raised(trial.provider.verify(http, bare)), BadCallback)
            if trial.tells_time:
                old = msgspec.structs.replace(callback, received_at=callback.received_at + 3_600)
                assert isinstance(await _raised(trial.provider.verify(http, old)), BadCallback)

    async def test_whatever_is_sent_as_a_call_back_breaks_nothing(self, trial: ProviderTrial) -> None:
        async with trial_http(trial.provider) as http:
            ref = await started(trial, http)
            genuine = await trial.callback(ref)
            names = () if genuine is None else tuple(genuine.headers)
            for body in MALFORMED:
                for value in ("", "x", "v1,x", "9" * 40, "é", "\x00"):
                    callback = ReceivedCallback({name.lower(): value for name in names}, body, time.time())
                    error = await _raised(trial.provider.verify(http, callback))
                    assert error is None or isinstance(error, BadCallback), error
                    if trial.provider.signs_callbacks:
                        assert isinstance(error, BadCallback)
                    trial.provider.refs(callback)

    async def test_a_refusal_is_final_in_the_providers_words(self, trial: ProviderTrial) -> None:
        async with trial_http(trial.provider) as http:
            await trial.answer_next(422, msgspec.json.encode({"detail": WORDS}), {"content-type": "application/json"})
            error = await _raised(started(trial, http))
            assert isinstance(error, ProviderError)
            assert error.final
            assert not error.is_fault
            assert WORDS in error.message

    async def test_too_many_requests_are_no_failure_and_wait_as_long_as_the_provider_says(
        self, trial: ProviderTrial
    ) -> None:
        async with trial_http(trial.provider) as http:
            await trial.answer_next(429, b"{}", {"content-type": "application/json", "retry-after": "7"})
            error = await _raised(started(trial, http))
            assert isinstance(error, ProviderBusy)
            assert error.retry_after_s == 7

    async def test_what_is_broken_counts_as_a_failure_of_the_provider_and_is_not_final(
        self, trial: ProviderTrial
    ) -> None:
        async with trial_http(trial.provider) as http:
            ref = await started(trial, http)
            calls: list[Callable[[], Awaitable[Any]]] = [
                lambda: started(trial, http, "job-3:0"),
                lambda: trial.provider.status(http, ref),
            ]
            for call in calls:
                for status, body in ((500, b"{}"), (503, b"<html>"), (200, b"<html>"), (302, b"")):
                    await trial.answer_next(status, body, {"location": "/elsewhere"})
                    error = await _raised(call())
                    assert isinstance(error, ProviderError), f"{status} {body!r} led to {error!r}"
                    assert error.is_fault
                    assert not error.final
