"""Webhooks: messages are owed with the change, made once, sent until they arrive, and given up in the end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core.outcomes import (
    DeliveriesMade,
    DeliveryChanged,
    DeliveryEnded,
    DeliveryHeld,
    EndpointChanged,
    Forgotten,
    HookHeld,
    Outcome,
    Refusal,
)
from ficha.core.policy import CREDITS_LOW_HOOK, DAY, HOUR, JOB_ENDED_HOOK, SECOND, HookTerms, Plan, Policy, Webhooks
from ficha.core.records import Delivery, Endpoint, WebhookEndpoints
from ficha.core.webhooks import MOST_SECRETS, OPERATOR, PAUSES_S, TEST_EVERY_S, pause_us
from tests.core.world import World
from tests.support.new_jobs import new_job

ENDS = frozenset({"completed", "failed", "cancelled"})
TERMS = Webhooks(low_credits=50, max_endpoints=3)


def world(terms: Webhooks | None = TERMS) -> World:
    made = World(
        Policy(plans={"free": Plan("free")}, hooks=(HookTerms(JOB_ENDED_HOOK, ENDS),), webhooks=terms),
    )
    made.declare_pools(gpu=None)
    made.run(c.OpenAccount("ana", "free", credits=100), c.OpenAccount("bob", "free", credits=100))
    return made


def add(made: World, endpoint_id: str, owner: str = "ana", *events: str) -> Outcome:
    return made.one(c.AddEndpoint(owner, endpoint_id, f"https://{endpoint_id}.example/hook", "secret 1", events))


def end(made: World, job_id: str = "j1", cost: int = 5, account: str = "ana") -> None:
    made.run(c.Submit(account, (new_job(job_id, "image", "gpu", "{}", cost=cost),)), c.CancelJob(job_id))


def make(made: World, job_id: str = "j1", hook: str = JOB_ENDED_HOOK, **changes: object) -> Outcome:
    """Holds the job's hook and makes what it owes, for all endpoints that there are."""
    held = made.one(c.HoldHook(hook, job_id, 60_000))
    assert isinstance(held, HookHeld)
    attempt = 0 if held.hook is None else held.hook.attempts
    event = "credits.low" if hook == CREDITS_LOW_HOOK else "job.cancelled"
    names = [
        (owner, endpoint.id, f"{job_id}-{event}-{endpoint.id}")
        for owner, found in made.state.of(WebhookEndpoints).items()
        for endpoint in found.endpoints
        if owner in ("ana", OPERATOR)
    ]
    command = c.MakeDeliveries(hook, job_id, "ana", attempt, event, "{}", tuple(names))
    return made.one(replace(command, **changes))


def deliveries(made: World) -> dict[str, Delivery]:
    assert made.faults() == []
    return made.state.of(Delivery)


def endpoint(made: World, endpoint_id: str, owner: str = "ana") -> Endpoint:
    return next(one for one in made.state.of(WebhookEndpoints)[owner].endpoints if one.id == endpoint_id)


def attempt(made: World, delivery: Delivery, status: int | None, error: str | None = None) -> Outcome:
    """Holds a message and says what came of it."""
    held = made.one(c.HoldDelivery(delivery.id, delivery.owner, 60_000))
    assert isinstance(held, DeliveryHeld)
    assert held.delivery is not None
    return made.one(c.EndDelivery(delivery.id, delivery.owner, held.delivery.attempts, status, error))


def test_each_endpoint_that_asks_for_it_gets_one_message() -> None:
    made = world()
    add(made, "e1")
    add(made, "e2", "ana", "job.cancelled", "job.failed")
    add(made, "e3", "ana", "credits.low")
    add(made, "e4", OPERATOR)
    add(made, "e5", "bob")
    end(made)
    assert make(made) == DeliveriesMade(3)
    assert made.state.hooks == {}
    assert {
        (one.owner, one.endpoint_id, one.event, one.account_id, one.job_id) for one in deliveries(made).values()
    } == {
        ("ana", "e1", "job.cancelled", "ana", "j1"),
        ("ana", "e2", "job.cancelled", "ana", "j1"),
        ("", "e4", "job.cancelled", "ana", "j1"),
    }


def test_a_hook_makes_its_messages_once_whoever_comes_late() -> None:
    made = world()
    add(made, "e1")
    end(made)
    made.one(c.HoldHook(JOB_ENDED_HOOK, "j1", 1_000))
    made.now += 2 * SECOND
    late = c.MakeDeliveries(JOB_ENDED_HOOK, "j1", "ana", 1, "job.cancelled", "{}", (("ana", "e1", "d9"),))
    assert make(made) == DeliveriesMade(1)
    assert made.run(late, replace(late, attempt=2)) == [DeliveriesMade(0, False)] * 2
    assert [*deliveries(made)] == ["j1-job.cancelled-e1"]


def test_an_endpoint_that_went_meanwhile_gets_nothing() -> None:
    made = world()
    add(made, "e1")
    end(made)
    assert make(made, deliveries=(("ana", "e9", "d1"), ("bob", "e1", "d2"), ("ana", "e1", "d3"))) == DeliveriesMade(1)
    assert [*deliveries(made)] == ["d3"]


@pytest.mark.parametrize(
    ("charges", "crossings"),
    [
        ([50], []),
        ([51], [0]),
        ([50, 1], [1]),
        ([60, 10], [0]),
        ([0, 0], []),
        ([40, 5, 5, 5, 5], [3]),
    ],
)
def test_the_charge_that_crosses_the_threshold_owes_a_message_and_no_other(
    charges: list[int], crossings: list[int]
) -> None:
    made = world()
    for number, cost in enumerate(charges):
        made.one(c.Submit("ana", (new_job(f"j{number}", "image", "gpu", "{}", cost=cost),)))
    assert made.faults() == []
    assert {*made.state.hooks} == {(CREDITS_LOW_HOOK, f"j{number}") for number in crossings}


def test_credits_that_came_back_cross_the_threshold_again() -> None:
    made = world()
    end(made, "j1", cost=60)
    made.one(c.Submit("ana", (new_job("j2", "image", "gpu", "{}", cost=60),)))
    assert [name for name in made.state.hooks if name[0] == CREDITS_LOW_HOOK] == [
        (CREDITS_LOW_HOOK, "j1"),
        (CREDITS_LOW_HOOK, "j2"),
    ]


def test_without_a_threshold_or_webhooks_no_charge_owes_anything() -> None:
    for terms in (Webhooks(), None):
        made = world(terms)
        made.one(c.Submit("ana", (new_job("j1", "image", "gpu", "{}", cost=100),)))
        assert made.state.hooks == {}


def test_the_end_of_a_job_is_told_after_its_charge() -> None:
    made = world()
    add(made, "e1")
    end(made, cost=60)
    held = made.one(c.HoldHook(CREDITS_LOW_HOOK, "j1", 60_000))
    assert make(made) == DeliveriesMade(0, changed=False)
    assert deliveries(made) == {}
    waiting = made.state.hooks[JOB_ENDED_HOOK, "j1"]
    assert isinstance(held, HookHeld)
    assert held.hook is not None
    # If whoever makes the first message dies, both are due again at the same time.
    assert waiting.due_at == held.hook.due_at
    made.now = waiting.due_at
    assert make(made) == DeliveriesMade(0, changed=False)
    made.now += 1
    assert make(made, hook=CREDITS_LOW_HOOK) == DeliveriesMade(1)
    assert made.state.hooks[JOB_ENDED_HOOK, "j1"].due_at == made.now
    assert make(made) == DeliveriesMade(1)
    assert [one.event for one in deliveries(made).values()] == ["credits.low", "job.cancelled"]


def test_a_message_is_tried_for_three_days_and_then_given_up() -> None:
    made = world()
    add(made, "e1")
    end(made)
    make(made)
    [delivery] = deliveries(made).values()
    began_at = made.now
    for number, pause_s in enumerate(PAUSES_S, 1):
        assert attempt(made, delivery, 500, "it answered 500") == DeliveryEnded()
        now = deliveries(made)[delivery.id]
        assert (now.state, now.attempts, now.answered, now.error) == ("pending", number, 500, "it answered 500")
        assert now.due_at == made.now + pause_s * SECOND
        made.now = now.due_at - 1
        assert made.one(c.HoldDelivery(delivery.id, "ana", 1)) == DeliveryHeld()
        made.now = now.due_at
    assert attempt(made, delivery, None, "nobody answers") == DeliveryEnded()
    last = deliveries(made)[delivery.id]
    assert (last.state, last.attempts, last.ended_at, last.answered) == ("failed", 10, made.now, None)
    assert 3 * DAY <= made.now - began_at < 4 * DAY
    assert made.one(c.HoldDelivery(delivery.id, "ana", 1)) == DeliveryHeld()
    assert [pause_us(1, jitter) for jitter in (0.0, 0.5)] == [5 * SECOND, 4_750_000]


@pytest.mark.parametrize("status", [200, 204, 299])
def test_an_answer_of_200_to_299_is_a_delivery(status: int) -> None:
    made = world()
    add(made, "e1")
    end(made)
    make(made)
    [delivery] = deliveries(made).values()
    attempt(made, delivery, status)
    [delivery] = deliveries(made).values()
    assert (delivery.state, delivery.answered, delivery.ended_at) == ("delivered", status, made.now)


@pytest.mark.parametrize("status", [199, 301, 302, 400, 404, 429, 500, None])
def test_any_other_answer_is_tried_again(status: int | None) -> None:
    made = world()
    add(made, "e1")
    end(made)
    make(made)
    [delivery] = deliveries(made).values()
    attempt(made, delivery, status, "no")
    assert deliveries(made)[delivery.id].state == "pending"
    assert endpoint(made, "e1").failing_since_at == made.now


def test_one_holds_a_message_at_a_time_and_the_word_of_a_dead_one_does_not_count() -> None:
    made = world()
    add(made, "e1")
    end(made)
    make(made)
    [delivery] = deliveries(made).values()
    first = made.one(c.HoldDelivery(delivery.id, "ana", 60_000))
    assert isinstance(first, DeliveryHeld)
    assert first.endpoint == endpoint(made, "e1")
    assert made.one(c.HoldDelivery(delivery.id, "ana", 60_000)) == DeliveryHeld()
    made.now += 60 * SECOND
    assert made.one(c.HoldDelivery(delivery.id, "ana", 60_000)) != DeliveryHeld()
    assert made.one(c.EndDelivery(delivery.id, "ana", 1, 200)) == DeliveryEnded(changed=False)
    assert made.one(c.EndDelivery(delivery.id, "ana", 2, 200)) == DeliveryEnded()
    assert made.one(c.EndDelivery(delivery.id, "ana", 2, 500)) == DeliveryEnded(changed=False)
    assert deliveries(made)[delivery.id].state == "delivered"
    assert made.one(c.EndDelivery("d9", "ana", 1, 200)) == DeliveryEnded(changed=False)
    assert made.one(c.HoldDelivery("d9", "ana", 1)) == DeliveryHeld()


def test_410_disables_the_endpoint_and_ends_what_is_on_its_way() -> None:
    made = world()
    add(made, "e1")
    for job_id in ("j1", "j2"):
        end(made, job_id)
        make(made, job_id)
    first, second = deliveries(made).values()
    assert attempt(made, first, 410) == DeliveryEnded(disabled=True)
    assert deliveries(made)[first.id].state == "failed"
    gone = endpoint(made, "e1")
    assert (gone.disabled_at, gone.disabled_reason) == (made.now, "it answered 410: gone")
    [line] = made.state.audit
    assert (line.actor, line.act, line.target) == ("system", "disable_webhook", "webhook e1")
    assert made.one(c.HoldDelivery(second.id, "ana", 1)) == DeliveryHeld()
    assert (deliveries(made)[second.id].state, deliveries(made)[second.id].error) == (
        "failed",
        "the endpoint is disabled",
    )
    end(made, "j3")
    assert make(made, "j3") == DeliveriesMade(0)
    refused = made.one(c.PingEndpoint("ana", "e1", "d7", "{}"))
    assert isinstance(refused, Refusal)
    assert "Enable it first" in refused.message
    assert made.one(c.ChangeEndpoint("ana", "e1", "enabled")) == EndpointChanged(
        replace(gone, disabled_at=None, disabled_reason=None, failing_since_at=None)
    )
    assert getattr(made.one(c.ChangeEndpoint("ana", "e1", "enabled")), "changed", None) is False
    end(made, "j4")
    assert make(made, "j4") == DeliveriesMade(1)


def test_an_endpoint_that_fails_for_too_long_is_disabled_and_one_success_counts() -> None:
    made = world(replace(TERMS, disable_after_s=7_200))
    add(made, "e1")
    end(made)
    make(made)
    [delivery] = deliveries(made).values()
    attempt(made, delivery, 500)
    began_at = made.now
    end(made, "j2")
    make(made, "j2")
    second = deliveries(made)["j2-job.cancelled-e1"]
    attempt(made, second, 200)
    assert endpoint(made, "e1").failing_since_at is None
    made.now += HOUR
    attempt(made, delivery, 500)
    assert endpoint(made, "e1").failing_since_at == made.now == began_at + HOUR
    made.now += 2 * HOUR - 1
    assert attempt(made, delivery, 500) == DeliveryEnded()
    made.now = began_at + 24 * HOUR
    assert attempt(made, delivery, 500) == DeliveryEnded(disabled=True)
    assert endpoint(made, "e1").disabled_reason == "nothing could be delivered for too long"


def test_a_message_to_an_endpoint_that_was_removed_is_given_up() -> None:
    made = world()
    add(made, "e1")
    end(made)
    make(made)
    [delivery] = deliveries(made).values()
    removed = made.one(c.ChangeEndpoint("ana", "e1", "removed"))
    assert isinstance(removed, EndpointChanged)
    assert made.one(c.HoldDelivery(delivery.id, "ana", 1)) == DeliveryHeld()
    assert deliveries(made)[delivery.id].error == "the endpoint was removed"
    refused = made.one(c.ResendDelivery(delivery.id, "ana"))
    assert isinstance(refused, Refusal)
    assert (refused.code, "was removed" in refused.message) == ("INVALID_STATE", True)


def test_a_secret_is_rotated_with_an_overlap() -> None:
    made = world()
    add(made, "e1")
    began_at = made.now

    def rotate(secret: str, overlap_ms: int) -> Outcome:
        return made.one(c.RotateSecret("ana", "e1", secret, overlap_ms))

    rotate("secret 2", 60_000)
    assert endpoint(made, "e1").secrets == (("secret 2", None), ("secret 1", began_at + 60 * SECOND))
    made.now += 10 * SECOND
    rotate("secret 3", 60_000)
    kept = (("secret 3", None), ("secret 2", began_at + 70 * SECOND), ("secret 1", began_at + 60 * SECOND))
    assert endpoint(made, "e1").secrets == kept
    assert len(kept) == MOST_SECRETS
    refused = rotate("secret 4", 60_000)
    assert isinstance(refused, Refusal)
    assert (refused.code, endpoint(made, "e1").secrets) == ("INVALID_STATE", kept)
    made.now = began_at + 60 * SECOND
    rotate("secret 4", 60_000)
    assert [secret for secret, _ in endpoint(made, "e1").secrets] == ["secret 4", "secret 3", "secret 2"]
    rotate("secret 5", 0)
    assert endpoint(made, "e1").secrets == (("secret 5", None),)


def test_endpoints_are_bounded_and_belong_to_somebody() -> None:
    made = world()
    assert isinstance(add(made, "e1"), EndpointChanged)
    add(made, "e2")
    add(made, "e3")
    for refused, code in (
        (add(made, "e4"), "QUOTA_EXCEEDED"),
        (add(made, "e4", "nobody"), "NOT_FOUND"),
        (add(world(None), "e1"), "INVALID_STATE"),
        (made.one(c.ChangeEndpoint("bob", "e1", "removed")), "NOT_FOUND"),
        (made.one(c.RotateSecret("", "e1", "s", 0)), "NOT_FOUND"),
        (made.one(c.PingEndpoint("bob", "e1", "d1", "{}")), "NOT_FOUND"),
        (made.one(c.ResendDelivery("d1", "ana")), "NOT_FOUND"),
    ):
        assert isinstance(refused, Refusal)
        assert refused.code == code
    made.one(c.ChangeEndpoint("ana", "e2", "removed"))
    assert isinstance(add(made, "e2"), EndpointChanged)
    refused = add(made, "e2")
    assert isinstance(refused, Refusal)
    assert refused.code in ("INVALID_STATE", "QUOTA_EXCEEDED")


def test_a_test_is_sent_once_and_not_too_often() -> None:
    made = world()
    add(made, "e1", "ana", "credits.low")
    sent = made.one(c.PingEndpoint("ana", "e1", "d1", "{}"))
    assert isinstance(sent, DeliveryChanged)
    assert (sent.delivery.event, sent.delivery.job_id) == ("webhook.test", None)
    refused = made.one(c.PingEndpoint("ana", "e1", "d2", "{}"))
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.retry_after_s) == ("RATE_LIMITED", TEST_EVERY_S)
    attempt(made, sent.delivery, 500, "no")
    assert deliveries(made)["d1"].state == "failed"
    made.now += TEST_EVERY_S * SECOND
    assert isinstance(made.one(c.PingEndpoint("ana", "e1", "d2", "{}")), DeliveryChanged)


def test_a_message_is_sent_again_with_its_id_and_all_its_tries() -> None:
    made = world()
    add(made, "e1")
    end(made)
    make(made)
    [delivery] = deliveries(made).values()
    attempt(made, delivery, 200)
    assert isinstance(made.one(c.ResendDelivery(delivery.id, "bob")), Refusal)
    again = made.one(c.ResendDelivery(delivery.id, "ana"))
    assert isinstance(again, DeliveryChanged)
    assert (again.delivery.state, again.delivery.due_at, again.changed) == ("pending", made.now, True)
    # It has as many tries as at first.
    for pause_s in PAUSES_S:
        attempt(made, delivery, 500)
        now = deliveries(made)[delivery.id]
        assert (now.state, now.due_at) == ("pending", made.now + pause_s * SECOND)
        made.now = now.due_at
    attempt(made, delivery, 500)
    assert deliveries(made)[delivery.id].state == "failed"


def test_a_resend_of_what_waits_brings_it_forward() -> None:
    made = world()
    add(made, "e1")
    end(made)
    make(made)
    [delivery] = deliveries(made).values()
    attempt(made, delivery, 500, "no")
    again = made.one(c.ResendDelivery(delivery.id, "ana"))
    assert isinstance(again, DeliveryChanged)
    assert (again.delivery.due_at, again.delivery.attempts) == (made.now, 1)


def test_so_many_messages_to_an_endpoint_are_sent_again_in_an_hour() -> None:
    made = world(replace(TERMS, resends_per_hour=3))
    add(made, "e1")
    end(made)
    make(made)
    [delivery] = deliveries(made).values()
    began_at = made.now
    for _ in range(3):
        attempt(made, deliveries(made)[delivery.id], 200)
        assert isinstance(made.one(c.ResendDelivery(delivery.id, "ana")), DeliveryChanged)
        # What is to be sent now anyway is not sent once more, and counts for nothing.
        again = made.one(c.ResendDelivery(delivery.id, "ana"))
        assert isinstance(again, DeliveryChanged)
        assert not again.changed
        made.now += 60 * SECOND
    attempt(made, deliveries(made)[delivery.id], 200)
    refused = made.one(c.ResendDelivery(delivery.id, "ana"))
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.retry_after_s) == ("RATE_LIMITED", 3_600 - 180)
    assert deliveries(made)[delivery.id].state == "delivered"
    made.now = began_at + 3_600 * SECOND - 1
    assert isinstance(made.one(c.ResendDelivery(delivery.id, "ana")), Refusal)
    made.now += 1
    assert isinstance(made.one(c.ResendDelivery(delivery.id, "ana")), DeliveryChanged)


def test_a_message_that_ended_is_deleted_after_a_while() -> None:
    made = world(replace(TERMS, kept_s=60))
    add(made, "e1")
    end(made)
    make(made)
    [delivery] = deliveries(made).values()
    forget = c.ForgetDelivery(delivery.id)
    assert made.one(forget) == Forgotten(changed=False)
    attempt(made, delivery, 200)
    made.now += 60 * SECOND - 1
    assert made.one(forget) == Forgotten(changed=False)
    made.now += 1
    assert made.run(forget, forget) == [Forgotten(changed=True), Forgotten(changed=False)]
    assert deliveries(made) == {}
