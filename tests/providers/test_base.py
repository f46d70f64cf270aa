"""What every provider stands on: its options, and HTTP that ends in an answer or in one error."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from msgspec import Struct

from ficha.providers import Breaker, Provider, ProviderBusy, ProviderError, ProviderHttp
from ficha.providers.base import FreeTurn


class Sent(Struct):
    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = {}


class Line(Exception):
    """The connection failed."""

    def __init__(self, was_sent: bool) -> None:
        super().__init__("the connection was refused")
        self.was_sent = was_sent


class Sender:
    """Answers every request with the same, and keeps what it was given."""

    def __init__(self, answer: Sent | Exception) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []

    async def request(self, method: str, url: str, **options: Any) -> Sent:
        self.requests.append({"method": method, "url": url, **options})
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def http(answer: Sent | Exception, **options: Any) -> ProviderHttp:
    return ProviderHttp(Sender(answer), errors=(Line,), **options)


@pytest.mark.parametrize(
    ("answer", "message", "final", "is_fault", "for_user"),
    [
        (Sent(422, b'{"detail": "no such model"}'), "no such model", True, False, True),
        (Sent(400, b'{"error": {"message": "too dark"}}'), "too dark", True, False, True),
        (Sent(400, b'{"errors": [{"msg": "a"}, {"msg": "b"}]}'), "a; b", True, False, True),
        (Sent(404, b"<html>"), "the provider answered 404", True, False, False),
        (Sent(401, b'{"detail": "bad key k"}'), "the provider answered 401: bad key k", True, False, False),
        (Sent(402, b'{"detail": "top up"}'), "the provider answered 402: top up", True, False, False),
        (Sent(408), "the provider answered 408", False, False, False),
        (Sent(500, b'{"detail": "oh"}'), "the provider answered 500: oh", False, True, False),
        (Sent(502, b"<html>"), "the provider answered 502", False, True, False),
        (Sent(302), "the provider answered 302, a redirect, which is not followed", False, True, False),
        (Sent(101), "the provider answered 101, a redirect, which is not followed", False, True, False),
    ],
)
async def test_every_other_status_is_an_error_that_says_what_to_do(
    answer: Sent, message: str, final: bool, is_fault: bool, for_user: bool
) -> None:
    with pytest.raises(ProviderError) as caught:
        await http(answer).request("GET", "https://p.example/x")
    error = caught.value
    assert (error.message, error.final, error.is_fault, error.for_user) == (message, final, is_fault, for_user)
    assert error.was_sent


async def test_an_answer_that_is_no_json_is_a_fault_of_its_turn_and_an_error_has_its_answer() -> None:
    turns = []

    @asynccontextmanager
    async def turn() -> AsyncIterator[FreeTurn]:
        turns.append(FreeTurn())
        yield turns[-1]

    for page in (b"<html>", b"", b"{", b"[" * 100_000):
        with pytest.raises(ProviderError, match="not JSON"):
            await http(Sent(200, page), turn=turn).json("GET", "https://p.example/x")
    assert [one.is_fault for one in turns] == [True] * 4
    refused = Sent(422, b'{"detail": "no"}', {"x-why": "tired"})
    with pytest.raises(ProviderError) as caught:
        await http(refused).json("GET", "https://p.example/x")
    assert caught.value.answer is refused


@pytest.mark.parametrize(
    ("header", "pause_s"),
    [("7", 7.0), ("0", 0.0), ("-3", 0.0), ("1e9", 3_600.0), ("nan", 5.0), ("soon", 5.0), (None, 5.0)],
)
async def test_one_request_too_many_is_nobodys_failure_and_waits_as_long_as_the_provider_says(
    header: str | None, pause_s: float
) -> None:
    headers = {} if header is None else {"Retry-After": header}
    with pytest.raises(ProviderBusy) as caught:
        await http(Sent(429, b"", headers)).request("GET", "https://p.example/x")
    assert (caught.value.retry_after_s, caught.value.is_fault, caught.value.final) == (pause_s, False, False)


async def test_a_date_may_say_when_to_try_again() -> None:
    late = {"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"}
    with pytest.raises(ProviderError) as caught:
        await http(Sent(503, b"", late)).request("GET", "https://p.example/x")
    assert caught.value.retry_after_s == 3_600.0


@pytest.mark.parametrize("was_sent", [True, False])
async def test_a_failed_connection_says_whether_the_provider_may_have_heard(was_sent: bool) -> None:
    with pytest.raises(ProviderError, match="refused") as caught:
        await http(Line(was_sent)).request("GET", "https://p.example/x")
    assert (caught.value.was_sent, caught.value.is_fault, caught.value.final) == (was_sent, True, False)


@pytest.mark.parametrize("body", [b"<html>", b"", b"\xff", b"[" * 100_000])
async def test_a_success_that_is_no_json_is_an_error_of_the_provider(body: bytes) -> None:
    with pytest.raises(ProviderError, match="not JSON") as caught:
        await http(Sent(200, body)).json("GET", "https://p.example/x")
    assert (caught.value.is_fault, caught.value.final) == (True, False)


async def test_every_request_takes_a_turn_and_tells_it_of_a_fault() -> None:
    class Taken:
        is_fault = False

    turns: list[Taken] = []

    @asynccontextmanager
    async def turn() -> AsyncIterator[Taken]:
        turns.append(Taken())
        yield turns[-1]

    for answer in (Sent(), Sent(422), Sent(500), Line(was_sent=True)):
        with suppress(ProviderError):
            await http(answer, turn=turn).request("GET", "https://p.example/x")
    assert [taken.is_fault for taken in turns] == [False, False, True, True]


async def test_the_correlation_id_goes_with_every_request() -> None:
    sender = Sender(Sent())
    calls = ProviderHttp(sender, correlation_id="trace-1", timeout_s=3)
    await asyncio.gather(
        calls.request("GET", "https://p.example/a"), calls.json("POST", "https://p.example/b", json={})
    )
    assert [request["headers"]["x-correlation-id"] for request in sender.requests] == ["trace-1"] * 2
    assert {request["timeout_s"] for request in sender.requests} == {3}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "Has Spaces"}, "its name must be"),
        ({"name": ""}, "its name must be"),
        ({"name": "a/b"}, "its name must be"),
        ({"rate": "60"}, "rate must be"),
        ({"rate": "0/m"}, "rate must be"),
        ({"rate": 60}, "rate must be"),
        ({"at_once": 0}, "at_once must be"),
        ({"at_once": True}, "at_once must be"),
        ({"timeout_s": 0}, "timeout_s must be"),
        ({"poll_s": "soon"}, "poll_s must be"),
        ({"poll_s": float("nan")}, "poll_s must be"),
        ({"breaker": 5}, "breaker must be"),
        ({"breaker": Breaker(failures=0)}, "breaker must be"),
        ({"breaker": Breaker(open_s=0)}, "breaker.open_s must be"),
    ],
)
def test_a_wrong_option_of_a_provider_says_what_is_right(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Provider(**{"name": "p", **options})


@pytest.mark.parametrize(("rate", "interval_s"), [(None, 0.0), ("60/m", 1.0), ("5/s", 0.2), ("7200/h", 0.5)])
def test_a_rate_is_a_time_between_requests(rate: str | None, interval_s: float) -> None:
    assert Provider("p", rate=rate).interval_s == interval_s
