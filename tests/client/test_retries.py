"""What a client tries again and what it never does, driven flow by flow without a network."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ficha import InsufficientCredits, Overloaded, RateLimited, Refused
from ficha.client import BadAnswer, Client, Retries, Unreachable
from ficha.client.retries import pause_s
from ficha.outbound import Answer
from tests.client.flow_driver import (
    JOB_ID,
    LOST,
    REFUSED,
    FlowDriver,
    account,
    credited,
    hold,
    job,
    ok,
    problem,
    receipt,
)

AWAY = Answer(503, {"content-type": "text/html"}, b"<h1>away</h1>")
OVERLOADED = problem("OVERLOADED", 503, retryable=True, retry_after_s=2.0)

HARMLESS: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = [
    (Client.submit, ("draw",), {}, receipt()),
    (Client.submit_batch, ([("draw", {})],), {}, receipt()),
    (Client.quote, ("draw",), {}, None),
    (Client.job, (JOB_ID,), {}, job()),
    (Client.jobs, (), {}, {"items": [], "next": None}),
    (Client.cancel, (JOB_ID,), {}, None),
    (Client.release, (JOB_ID,), {}, hold()),
    (Client.account, (), {}, account()),
    (Client.grant, ("ana", 5), {"key": "pay-1"}, credited()),
    (Client.adjust, ("ana", 5), {"key": "fix-1", "reason": "x"}, credited()),
    (Client.open_account, ("ana",), {"exist_ok": True}, account()),
]
ONCE: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = [
    (Client.reserve, (), {}, hold()),
    (Client.consume, (JOB_ID,), {}, hold()),
    (Client.grant, ("ana", 5), {}, credited()),
    (Client.adjust, ("ana", 5), {"reason": "x"}, credited()),
    (Client.open_account, ("ana",), {}, account()),
    (Client.requeue, (JOB_ID,), {}, {"job_id": JOB_ID}),
    (Client.resume_batch, (JOB_ID,), {}, {"resumed": 1}),
    (Client.create_api_key, ("ci",), {}, None),
]
TROUBLES = [LOST, AWAY, Answer(502, {}), Answer(504, {}), OVERLOADED, problem("TIMEOUT", 408, retryable=True)]
FINAL = [
    problem("INSUFFICIENT_CREDITS", 402),
    problem("COST_LIMIT", 402),
    problem("ACTIVE_JOB_EXISTS", 409),
    problem("INVALID_STATE", 409),
    problem("IDEMPOTENCY_MISMATCH", 422),
    problem("INVALID_PAYLOAD", 422),
    problem("QUOTA_EXCEEDED", 429),
    problem("UNAUTHENTICATED", 401),
    problem("FORBIDDEN", 403),
    problem("NOT_FOUND", 404),
    problem("INTERNAL", 500),
    Answer(500, {}),
    Answer(302, {"location": "http://elsewhere.test/"}),
    Answer(404, {"content-type": "text/html"}, b"<h1>nothing here</h1>"),
]


@pytest.mark.req("C5")
def test_a_submit_reuses_one_key_over_all_its_tries() -> None:
    trial = FlowDriver().drive(
        Client.submit, "draw", {"prompt": "cat"}, replies=[REFUSED, LOST, AWAY, ok(receipt(), 201)]
    )
    assert trial.result.job_id == JOB_ID
    assert len(trial.sent) == 4
    keys = {body["idempotency_key"] for body in trial.bodies()}
    assert len(keys) == 1
    assert len({step.body for step in trial.sent}) == 1, "the same bytes each time"
    again = FlowDriver().drive(Client.submit, "draw", {"prompt": "cat"}, replies=[ok(receipt())])
    assert again.bodies()[0]["idempotency_key"] not in keys, "another submit is another key"


def test_a_key_that_was_given_is_the_one_that_is_sent() -> None:
    trial = FlowDriver().drive(Client.submit, "draw", idempotency_key="k1", replies=[LOST, ok(receipt())])
    assert [(body["idempotency_key"], body.get("key_ttl_hours")) for body in trial.bodies()] == [("k1", None)] * 2
    own = FlowDriver().drive(Client.submit, "draw", replies=[ok(receipt())])
    assert own.bodies()[0]["key_ttl_hours"] == 1.0, "a key that nobody knows need not be kept for long"


@pytest.mark.parametrize(("operation", "args", "kwargs", "answer"), HARMLESS, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda v: str(getattr(v, "status", "lost")))
def test_what_does_no_harm_twice_is_tried_again(
    operation: Any, args: Any, kwargs: Any, answer: Any, trouble: Any
) -> None:
    bench = FlowDriver()
    trial = bench.drive(operation, *args, replies=[trouble, REFUSED, problem("FORBIDDEN", 403)], **kwargs)
    assert len(trial.sent) == 3
    assert len(trial.pauses) == 2
    if answer is not None:
        assert bench.drive(operation, *args, replies=[trouble, ok(answer)], **kwargs).error is None


@pytest.mark.parametrize(("operation", "args", "kwargs", "answer"), ONCE, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda v: str(getattr(v, "status", "lost")))
def test_what_may_have_been_done_is_not_done_again(
    operation: Any, args: Any, kwargs: Any, answer: Any, trouble: Any
) -> None:
    trial = FlowDriver().drive(operation, *args, replies=[trouble], **kwargs)
    assert (len(trial.sent), trial.pauses) == (1, [])
    assert isinstance(trial.error, Refused | Unreachable)


@pytest.mark.parametrize(("operation", "args", "kwargs", "answer"), ONCE, ids=lambda v: getattr(v, "__name__", ""))
def test_what_cannot_have_reached_the_server_is_sent_again(operation: Any, args: Any, kwargs: Any, answer: Any) -> None:
    trial = FlowDriver().drive(operation, *args, replies=[REFUSED, REFUSED, problem("FORBIDDEN", 403)], **kwargs)
    assert len(trial.sent) == 3


@pytest.mark.req("C3", "C5")
@pytest.mark.parametrize("answer", FINAL, ids=lambda a: f"{a.status}")
def test_what_is_not_retryable_is_never_tried_again(answer: Answer) -> None:
    for operation, args in ((Client.submit, ("draw",)), (Client.job, (JOB_ID,)), (Client.cancel, (JOB_ID,))):
        trial = FlowDriver().drive(operation, *args, replies=[answer])
        assert (len(trial.sent), trial.pauses) == (1, [])
        assert isinstance(trial.error, Refused | BadAnswer)


@pytest.mark.req("C5")
def test_it_gives_up_after_eight_tries_and_raises_the_last_trouble() -> None:
    trial = FlowDriver().drive(Client.job, JOB_ID, replies=[*[REFUSED] * 7, OVERLOADED])
    assert len(trial.sent) == 8
    assert isinstance(trial.error, Overloaded)
    assert trial.pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]


def test_it_gives_up_when_the_time_is_up() -> None:
    bench = FlowDriver(took_s=25.0)
    trial = bench.drive(Client.job, JOB_ID, replies=lambda _: LOST)
    assert len(trial.sent) == 3
    assert trial.error is LOST
    assert bench.now < 80.0
    patient = FlowDriver(Retries(give_up_s=1_000.0, tries=100), took_s=25.0)
    assert len(patient.drive(Client.job, JOB_ID, replies=lambda _: LOST).sent) > 20


def test_one_try_is_one_try() -> None:
    assert len(FlowDriver(Retries(tries=1)).drive(Client.job, JOB_ID, replies=lambda _: REFUSED).sent) == 1


def test_a_pause_that_the_server_asks_for_is_kept_and_spread() -> None:
    for drawn, expected in ((0.0, 2.0), (1.0, 2.2)):
        trial = FlowDriver(drawn=drawn).drive(Client.job, JOB_ID, replies=[OVERLOADED, ok(job())])
        assert trial.pauses == [expected]
    proxy = Answer(503, {"content-type": "text/html", "retry-after": "7"})
    assert FlowDriver(drawn=0.0).drive(Client.job, JOB_ID, replies=[proxy, ok(job())]).pauses == [7.0]
    far = problem("OVERLOADED", 503, retryable=True, retry_after_s=61.0)
    trial = FlowDriver(Retries(give_up_s=600.0)).drive(Client.job, JOB_ID, replies=[far])
    assert (trial.pauses, type(trial.error)) == ([], Overloaded)


@pytest.mark.req("C3")
def test_a_rate_limit_is_waited_for_only_if_there_is_time() -> None:
    soon = problem("RATE_LIMITED", 429, retryable=True, retry_after_s=30.0, limit=10)
    trial = FlowDriver(drawn=0.0).drive(Client.submit, "draw", replies=[soon, ok(receipt())])
    assert (trial.pauses, trial.error) == ([30.0], None)
    twice = FlowDriver(drawn=0.5).drive(Client.submit, "draw", replies=[soon, soon])
    assert (len(twice.sent), len(twice.pauses)) == (2, 1), "the second wait would end after the client gives up"
    assert isinstance(twice.error, RateLimited)
    assert (twice.error.retry_after_s, twice.error.details) == (30.0, {"limit": 10})
    late = problem("RATE_LIMITED", 429, retryable=True, retry_after_s=3_000.0)
    assert FlowDriver().drive(Client.submit, "draw", replies=[late]).pauses == []


@given(tried=st.integers(1, 10_000), seed=st.integers(), retry_after=st.none() | st.floats(0, 60))
def test_a_pause_is_drawn_from_nothing_up_to_a_bound_that_doubles(
    tried: int, seed: int, retry_after: float | None
) -> None:
    retries = Retries(tries=100_000)
    drawn = random.Random(seed).random()
    trouble = Unreachable("x", reached=False, retry_after_s=retry_after)
    pause = pause_s(retries, trouble, harmless=False, tried=tried, left_s=1_000.0, drawn=drawn)
    asked = retry_after or 0.0
    assert pause is not None
    assert asked <= pause <= asked + min(10.0, 0.2 * 2.0 ** min(tried - 1, 60))


def test_a_refusal_is_the_same_as_in_process() -> None:
    answer = problem("INSUFFICIENT_CREDITS", 402, have=4, need=5)
    error = FlowDriver().drive(Client.submit, "draw", replies=[answer]).error
    assert isinstance(error, InsufficientCredits)
    assert (error.code, error.message) == ("INSUFFICIENT_CREDITS", "it is INSUFFICIENT_CREDITS")
    assert (error.retryable, error.retry_after_s, error.details) == (False, None, {"have": 4, "need": 5})
    assert error.__notes__ == ["correlation id: c-1"]


def test_a_code_that_only_http_has_is_a_plain_refusal() -> None:
    error = FlowDriver().drive(Client.consume, JOB_ID, replies=[problem("TIMEOUT", 408, retryable=True)]).error
    assert type(error) is Refused
    assert (error.code, error.retryable) == ("TIMEOUT", True)


def test_a_redirect_is_told_and_not_followed() -> None:
    moved = Answer(307, {"location": "https://elsewhere.test/api/jobs"})
    trial = FlowDriver().drive(Client.submit, "draw", replies=[moved])
    assert str(trial.error) == (
        "http://ficha.test leads elsewhere (https://elsewhere.test/api/jobs); if that is the server, name it as the URL"
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"id": 5}'])
def test_an_answer_that_is_not_understood_says_so(body: bytes) -> None:
    error = FlowDriver().drive(Client.job, JOB_ID, replies=[Answer(200, {}, body)]).error
    assert isinstance(error, BadAnswer)
    assert "is it a Ficha server, and of the same release?" in str(error)
