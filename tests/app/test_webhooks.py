"""Webhooks: what happened is told to every endpoint that asked: signed, at least once, and in order per job."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from ficha import Ficha, InvalidArgument, InvalidState, NewWebhook, NotFound, QuotaExceeded, RateLimited, Webhooks
from ficha.core.policy import JOB_ENDED_HOOK
from ficha.store.base import GetState
from ficha.worker import delivery_runner, due_runner
from tests.support import processes
from tests.support.receiver import Received, Receiver, Reply
from tests.support.shop import World, shop
from tests.support.waiting import until

LOOPBACK = ("127.0.0.0/8",)


async def open_shop(world: World, **terms: Any) -> Ficha:
    app = await world.open(webhooks=Webhooks(**terms), allow_addresses=LOOPBACK)
    await app.open_account("ana", plan="open", credits=1_000)
    return app


async def ended(app: Ficha, account: str = "ana") -> str:
    """A job that was cancelled."""
    job_id = (await app.submit("upscale", {"image": "x"}, account=account)).job_id
    await app.cancel(job_id)
    return job_id


def answering(*statuses: int) -> Callable[[Received, asyncio.StreamWriter], Any]:
    """Answers with these, one after the other, and then with 200."""
    left = list(statuses)

    async def script(request: Received, writer: asyncio.StreamWriter) -> Reply:
        return Reply(left.pop(0) if left else 200)

    return script


def read(request: Received, added: NewWebhook) -> dict[str, Any]:
    """The message, if its signature is right."""
    found: dict[str, Any] = Webhook(added.secret).verify(request.body, dict(request.headers))
    return found


async def test_so_many_messages_to_an_endpoint_are_sent_again_in_an_hour(world: World) -> None:
    async with Receiver() as receiver:
        app = await open_shop(world, resends_per_hour=2)
        for path in ("/hook", "/other"):
            await app.add_webhook(receiver.url(path), account="ana")
        await ended(app)
        await app.run_worker(burst=True)
        first, other = (await app.deliveries(account="ana")).items
        for _ in range(2):
            await app.resend_delivery(first.id, account="ana")
            await app.run_worker(burst=True)
        with pytest.raises(RateLimited, match=r"2 messages to the endpoint .* within an hour, the most") as told:
            await app.resend_delivery(first.id, account="ana")
        assert told.value.retry_after_s is not None
        assert 3_500 < told.value.retry_after_s <= 3_600
        await app.resend_delivery(other.id, account="ana")
        world.clock.advance(told.value.retry_after_s)
        await app.resend_delivery(first.id, account="ana")
        await app.run_worker(burst=True)
        assert len(receiver.received) == 2 + 4
        assert await app.verify() == []


async def test_an_account_that_is_erased_while_its_messages_are_made_is_told_nothing(world: World) -> None:
    async with Receiver() as receiver:
        app = await open_shop(world)
        await app.add_webhook(receiver.url("/operator"))
        await ended(app)
        [due] = await app.due_hooks([JOB_ENDED_HOOK], 1)
        held = await app.hold_hook(due, 60)
        assert held is not None
        await app.erase("ana")
        assert await app.make_deliveries(held) == 0
        await app.run_worker(burst=True)
        assert (receiver.received, (await app.deliveries()).items, await app.verify()) == ([], [], [])


async def test_a_job_that_completed_is_told_of_with_its_result(world: World) -> None:
    async with Receiver() as receiver:
        app = await open_shop(world)
        added = await app.add_webhook(receiver.url("/hook"), account="ana", description="my site")
        job_id = (await app.submit("upscale", {"image": "x"}, account="ana", correlation_id="c1")).job_id
        await app.run_worker(burst=True)
        [request] = receiver.received
        message = read(request, added)
        assert (message["type"], request.method, request.path) == ("job.completed", "POST", "/hook")
        told = message["data"]
        assert (told["job_id"], told["account"], told["status"], told["charged"]) == (job_id, "ana", "completed", 5)
        assert (told["result"], told["result_omitted"], told["correlation_id"]) == ({"image": "x x2"}, False, "c1")
        [delivery] = (await app.deliveries(account="ana")).items
        assert (delivery.id, delivery.state, delivery.attempts, delivery.answered, delivery.job_id) == (
            *(request.headers["webhook-id"], "delivered", 1, 200),
            job_id,
        )
        assert json.loads(delivery.body) == message
        await app.run_worker(burst=True)
        assert len(receiver.received) == 1
        assert await app.verify() == []


async def test_failures_are_told_in_the_words_for_the_owner_and_long_results_are_left_out(world: World) -> None:
    async with Receiver() as receiver:
        app = await open_shop(world, result_bytes=20)
        added = await app.add_webhook(receiver.url(), account="ana")
        await app.submit("upscale", {"image": "x"}, account="ana")
        (lease,) = await app.claim("gpu", worker="w1")
        await app.fail(lease, "ConnectionError: host north.internal")
        for image in ("1234", "123456"):
            await app.submit("upscale", {"image": image}, account="ana")
            await app.run_worker(burst=True)
        told = sorted((read(request, added)["data"] for request in receiver.received), key=lambda one: one["job_id"])
        failed, short, long = told
        assert "north" not in json.dumps(failed)
        assert "internal reason" in failed["error"]
        assert (short["result"], short["result_omitted"]) == ({"image": "1234 x2"}, False)
        assert (long["result"], long["result_omitted"]) == (None, True)


async def test_endpoints_hear_what_they_asked_for_and_the_operators_hear_of_all(world: World) -> None:
    async with Receiver() as receiver:
        app = await open_shop(world)
        await app.open_account("bob", plan="open", credits=100)
        await app.add_webhook(receiver.url("/ana"), account="ana", events=["job.failed"])
        await app.add_webhook(receiver.url("/bob"), account="bob", events=["job.cancelled", "job.failed"])
        await app.add_webhook(receiver.url("/all"))
        for account in ("ana", "bob"):
            await ended(app, account)
        await app.run_worker(burst=True)
        told = sorted((request.path, json.loads(request.body)["data"]["account"]) for request in receiver.received)
        assert told == [("/all", "ana"), ("/all", "bob"), ("/bob", "bob")]
        assert [webhook.account for webhook in await app.webhooks()] == [None]
        assert len((await app.deliveries()).items) == 2
        assert (await app.deliveries(account="ana")).items == []


async def test_low_credits_are_told_of_once_per_crossing_and_before_the_jobs_end(world: World) -> None:
    async with Receiver() as receiver:
        app = await open_shop(world, low_credits=990)
        added = await app.add_webhook(receiver.url(), account="ana")
        ids = [(await app.submit("upscale", {"image": "x"}, account="ana")).job_id for _ in range(4)]
        await app.run_worker(burst=True)
        told = [read(request, added) for request in receiver.received]
        assert [message["data"]["job_id"] for message in told if message["type"] == "credits.low"] == [ids[2]]
        low = next(message["data"] for message in told if message["type"] == "credits.low")
        assert (low["threshold"], low["balance"] < 990) == (990, True)
        assert [message["type"] for message in told if message["data"]["job_id"] == ids[2]] == [
            "credits.low",
            "job.completed",
        ]
        assert await app.verify() == []


async def test_a_receiver_that_was_down_for_an_hour_gets_everything_once_and_in_order_per_job(world: World) -> None:
    async with Receiver() as receiver:
        app = await open_shop(world, low_credits=900)
        added = await app.add_webhook(receiver.url(), account="ana")
        await receiver.go()
        for _ in range(12):
            ids = [(await app.submit("upscale", {"image": "x"}, account="ana")).job_id for _ in range(2)]
            await app.run_worker(burst=True)
            assert ids
            world.clock.advance(300)
        assert receiver.received == []
        [webhook] = await app.webhooks(account="ana")
        assert webhook.failing_since_at is not None
        await receiver.come()
        for _ in range(30):
            world.clock.advance(600)
            await app.run_worker(burst=True)
        told = [read(request, added) for request in receiver.received]
        ids = [request.headers["webhook-id"] for request in receiver.received]
        assert (len(ids), len(set(ids))) == (25, 25)
        by_job: dict[str, list[str]] = {}
        for message in told:
            by_job.setdefault(message["data"]["job_id"], []).append(message["type"])
        assert sorted(map(tuple, by_job.values())) == [
            ("credits.low", "job.completed"),
            *[("job.completed",)] * 23,
        ]
        pages = (await app.deliveries(account="ana", state="pending")).items
        assert pages == []
        [webhook] = await app.webhooks(account="ana")
        assert (webhook.failing_since_at, webhook.disabled_at) == (None, None)
        assert await app.verify() == []


async def test_a_receiver_that_refuses_is_tried_again_with_the_same_id(world: World) -> None:
    async with Receiver(answering(500, 302)) as receiver:
        app = await open_shop(world)
        added = await app.add_webhook(receiver.url(), account="ana")
        await ended(app)
        for advance_s, state, error in (
            (5, "pending", "it was answered with 500"),
            (300, "pending", "it was answered with 302"),
            (0, "delivered", None),
        ):
            await app.run_worker(burst=True)
            await app.run_worker(burst=True)
            [delivery] = (await app.deliveries(account="ana")).items
            assert (delivery.state, delivery.error) == (state, error)
            world.clock.advance(advance_s)
        assert len({request.headers["webhook-id"] for request in receiver.received}) == 1
        assert len(receiver.received) == 3
        assert all(read(request, added) for request in receiver.received)


async def test_410_disables_the_endpoint_until_it_is_enabled(world: World) -> None:
    async with Receiver(answering(410)) as receiver:
        app = await open_shop(world)
        added = await app.add_webhook(receiver.url(), account="ana")
        await ended(app)
        await app.run_worker(burst=True)
        [webhook] = await app.webhooks(account="ana")
        assert webhook.disabled_reason == "it answered 410: gone"
        [delivery] = (await app.deliveries(account="ana")).items
        assert delivery.state == "failed"
        await ended(app)
        await app.run_worker(burst=True)
        assert len(receiver.received) == 1
        with pytest.raises(InvalidState, match="Enable it first"):
            await app.resend_delivery(delivery.id, account="ana")
        [line] = [line for line in (await app.audit()).items if line.act == "disable_webhook"]
        assert (line.actor, line.target) == ("system", f"webhook {webhook.id}")
        await app.enable_webhook(added.webhook.id, account="ana")
        await app.resend_delivery(delivery.id, account="ana")
        await app.run_worker(burst=True)
        assert [request.headers["webhook-id"] for request in receiver.received] == [delivery.id] * 2
        assert (await app.deliveries(account="ana", state="delivered")).items[0].id == delivery.id


async def test_an_endpoint_that_fails_for_days_is_disabled(world: World) -> None:
    app = await open_shop(world, disable_after_s=86_400)
    async with Receiver() as receiver:
        await app.add_webhook(receiver.url(), account="ana")
    await ended(app)
    for _ in range(6):
        await app.run_worker(burst=True)
        world.clock.advance(10 * 3_600)
    [webhook] = await app.webhooks(account="ana")
    assert webhook.disabled_reason == "nothing could be delivered for too long"


async def test_a_rotated_secret_signs_beside_the_old_one_until_the_overlap_is_over(world: World) -> None:
    async with Receiver() as receiver:
        app = await open_shop(world)
        first = await app.add_webhook(receiver.url(), account="ana")
        second = await app.rotate_webhook_secret(first.webhook.id, account="ana", overlap_s=3_600)
        assert first.secret != second.secret
        assert "whsec_" not in repr(second)
        for advance_s in (3_599, 1):
            await ended(app)
            await app.run_worker(burst=True)
            world.clock.advance(advance_s)
        await ended(app)
        await app.run_worker(burst=True)
        overlapping, still, after = receiver.received
        for request in (overlapping, still, after):
            assert read(request, second)
        assert read(overlapping, first)
        assert read(still, first)
        with pytest.raises(WebhookVerificationError):
            read(after, first)
        third = await app.rotate_webhook_secret(first.webhook.id, account="ana", overlap_s=0)
        await ended(app)
        await app.run_worker(burst=True)
        assert read(receiver.received[-1], third)
        with pytest.raises(WebhookVerificationError):
            read(receiver.received[-1], second)


async def test_a_test_is_sent_once_and_shown(world: World) -> None:
    async with Receiver(answering(500)) as receiver:
        app = await open_shop(world)
        added = await app.add_webhook(receiver.url(), account="ana", events=["credits.low"])
        sent = await app.test_webhook(added.webhook.id, account="ana")
        with pytest.raises(RateLimited):
            await app.test_webhook(added.webhook.id, account="ana")
        await app.run_worker(burst=True)
        message = read(receiver.received[0], added)
        assert (message["type"], message["data"]) == ("webhook.test", {"webhook": added.webhook.id})
        [delivery] = (await app.deliveries(account="ana", webhook_id=added.webhook.id)).items
        assert (delivery.id, delivery.state, delivery.error) == (sent.id, "failed", "it was answered with 500")


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "https://[::1]/",
        "https://localhost/",
        "http://0/",
        "https://user:word@127.0.0.1/",
        "ftp://example.com/",
        "example.com",
        "",
    ],
)
async def test_an_address_inside_is_refused_when_it_is_added(world: World, url: str) -> None:
    app = await world.open(webhooks=True)
    with pytest.raises(InvalidArgument, match="webhooks cannot be sent to this URL"):
        await app.add_webhook(url)
    assert await app.webhooks() == []


async def test_a_name_that_leads_inside_later_is_refused_when_it_is_delivered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Added while the name led outside, and called when it leads to this machine."""
    async with Receiver() as receiver:
        app = await world.open(webhooks=True)
        await app.open_account("ana", plan="open", credits=100)
        leads_to = ["93.184.216.34"]

        async def resolve(host: str, port: int) -> list[str]:
            return leads_to

        monkeypatch.setattr(app.outbound, "_resolve", resolve)
        await app.add_webhook(f"https://hooks.example:{receiver.port}/", account="ana")
        leads_to[:] = ["127.0.0.1"]
        await ended(app)
        await app.run_worker(burst=True)
        [delivery] = (await app.deliveries(account="ana")).items
        assert (delivery.state, delivery.answered) == ("pending", None)
        assert delivery.error == "hooks.example leads to no public address"
        assert receiver.connections == 0


async def test_one_slow_endpoint_delays_nobody_elses(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_runner, "AT_ONCE", 6)
    monkeypatch.setattr(due_runner, "POLL_S", 3_600.0)
    gate = asyncio.Event()

    async def hanging(request: Received, writer: asyncio.StreamWriter) -> Reply:
        await gate.wait()
        return Reply()

    async with Receiver(hanging) as slow, Receiver() as quick:
        app = await open_shop(world)
        await app.open_account("bob", plan="open", credits=100)
        await app.add_webhook(slow.url(), account="ana")
        await app.add_webhook(quick.url("/ana"), account="ana")
        await app.add_webhook(quick.url("/bob"), account="bob")
        for _ in range(20):
            await ended(app)
        for _ in range(3):
            await ended(app, "bob")
        working = asyncio.create_task(app.run_worker(["cpu"]))
        await until(lambda: len(quick.received) == 23)
        assert len(slow.received) == delivery_runner.ENDPOINT_AT_ONCE
        gate.set()
        await until(lambda: len(slow.received) == 20)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_two_workers_share_the_messages_and_each_is_sent_once(world: World) -> None:
    async with Receiver() as receiver:
        app = await open_shop(world)
        await app.add_webhook(receiver.url(), account="ana")
        await app.add_webhook(receiver.url("/all"))
        for _ in range(10):
            await ended(app)
        await asyncio.gather(*(app.run_worker(burst=True, worker=f"w{number}") for number in range(2)))
        ids = [request.headers["webhook-id"] for request in receiver.received]
        assert (len(ids), len(set(ids))) == (20, 20)


async def test_messages_that_ended_are_deleted_after_a_while(world: World) -> None:
    async with Receiver() as receiver:
        app = await open_shop(world, kept_s=3_600)
        await app.add_webhook(receiver.url(), account="ana")
        await ended(app)
        await app.run_worker(burst=True)
        world.clock.advance(3_599)
        assert await app.forget_old_deliveries() == 0
        world.clock.advance(1)
        assert await app.forget_old_deliveries() == 1
        assert (await app.deliveries(account="ana")).items == []


async def test_what_is_wrong_is_refused(world: World) -> None:
    async with Receiver() as receiver:
        app = await open_shop(world, max_endpoints=1)
        await app.open_account("bob", plan="open")
        added = await app.add_webhook(receiver.url(), account="ana")
        with pytest.raises(QuotaExceeded, match="1 are allowed"):
            await app.add_webhook(receiver.url(), account="ana")
        with pytest.raises(NotFound):
            await app.add_webhook(receiver.url(), account="nobody")
        with pytest.raises(InvalidArgument, match=r"there is no event 'job\.done'"):
            await app.add_webhook(receiver.url(), account="bob", events=["job.done"])
        with pytest.raises(InvalidArgument, match="at most 200 characters"):
            await app.add_webhook(receiver.url(), account="bob", description="x" * 201)
        for call in (app.remove_webhook, app.enable_webhook, app.rotate_webhook_secret, app.test_webhook):
            with pytest.raises(NotFound):
                await call(added.webhook.id, account="bob")
        await app.test_webhook(added.webhook.id, account="ana")
        [delivery] = (await app.deliveries(account="ana")).items
        with pytest.raises(NotFound):
            await app.resend_delivery(delivery.id, account="bob")
        assert (await app.remove_webhook(added.webhook.id, account="ana")).id == added.webhook.id
        assert await app.webhooks(account="ana") == []
        await app.run_worker(burst=True)
        assert receiver.received == []


async def test_without_webhooks_none_can_be_added() -> None:
    async with shop(allow_addresses=LOOPBACK) as app:
        with pytest.raises(InvalidState, match=r"Ficha\(webhooks=True\)"):
            await app.add_webhook("http://127.0.0.1/")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"webhooks": "yes"}, "webhooks must be True, False or Webhooks"),
        ({"webhooks": Webhooks(low_credits=0)}, "low_credits"),
        ({"webhooks": Webhooks(max_endpoints=-1)}, "max_endpoints"),
        ({"webhooks": Webhooks(result_bytes=-1)}, "result_bytes"),
        ({"webhooks": Webhooks(timeout_s=0)}, "timeout_s"),
        ({"webhooks": Webhooks(kept_s=float("nan"))}, "kept_s"),
        ({"allow_addresses": ["10.0.0.0/99"]}, "allow_addresses"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Ficha("memory:", **settings)


def test_allowed_addresses_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FICHA_ALLOW_ADDRESSES", "10.0.0.0/8,hooks.internal")
    assert Ficha("memory:").allow_addresses == ("10.0.0.0/8", "hooks.internal")
    monkeypatch.setenv("FICHA_ALLOW_ADDRESSES", "10.0.0.0/8;hooks.internal")
    with pytest.raises(ValueError, match="allow_addresses"):
        Ficha("memory:")


async def test_a_running_worker_sends_as_jobs_end_in_another_application(url: str) -> None:
    async with Receiver() as receiver, shop(url, webhooks=True, allow_addresses=LOOPBACK) as app:
        await app.open_account("ana", plan="open", credits=100)
        await app.add_webhook(receiver.url(), account="ana")
        working = asyncio.create_task(app.run_worker(["cpu"]))
        other = app if url == "memory:" else await shop(url, webhooks=True).open()
        await ended(other)
        await until(lambda: receiver.received)
        if other is not app:
            await other.close()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


DYING = """
import asyncio, os, signal, sys
from ficha import Ficha, Webhooks, declared_parts
from ficha.operations.webhooks import WebhookOperations
from ficha.worker import delivery_runner, hook_runner

url, target, step = sys.argv[1:]
timeout_s = 60.0
if step != "lives":
    hook_runner.GRACE_S = delivery_runner.GRACE_S = 0.0
    declared_parts.HOOK_S = timeout_s = 0.2
app = Ficha(url, webhooks=Webhooks(timeout_s=timeout_s), allow_addresses=["127.0.0.0/8"])

@app.tool()
async def work(job) -> None: ...

def dying(name, after):
    inner = getattr(WebhookOperations, name)
    async def dies(self, *args, **named):
        found = await inner(self, *args, **named) if after else None
        os.kill(os.getpid(), signal.SIGKILL)
        return found
    return dies

steps = {
    "before the messages are made": ("make_deliveries", False),
    "after the messages were made": ("make_deliveries", True),
    "before a message is held": ("hold_delivery", False),
    "after a message was held": ("hold_delivery", True),
    "before it is ended": ("end_delivery", False),
    "after it was ended": ("end_delivery", True),
}

async def main():
    if step in steps:
        setattr(WebhookOperations, steps[step][0], dying(*steps[step]))
        from ficha.core.policy import JOB_ENDED_HOOK
        app._hooks[JOB_ENDED_HOOK] = hook_runner.Hook(
            app._hooks[JOB_ENDED_HOOK].terms, WebhookOperations.make_deliveries, 0.2, ends_itself=True
        )
    async with app:
        if step in steps:
            await app.open_account("ana", exist_ok=True)
            await app.add_webhook(target, account="ana")
            await app.submit("work", {}, account="ana")
            await app.run_worker(burst=True)
            return
        while await app.hooks() or (await app.deliveries(account="ana", state="pending")).items:
            await app.run_worker(burst=True)
            await asyncio.sleep(0.05)

asyncio.run(main())
"""
STEPS = (
    *(("before the messages are made", 0), ("after the messages were made", 0), ("before a message is held", 0)),
    *(("after a message was held", 0), ("before it is ended", 1), ("after it was ended", 1)),
)


@pytest.mark.long_on("postgresql")
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize(("step", "arrived"), STEPS)
async def test_a_worker_killed_between_two_steps_loses_no_message(url: str, step: str, arrived: int) -> None:
    async with Receiver() as receiver:

        async def run(how: str) -> int:
            program = await asyncio.to_thread(processes.run, "tests.support.program", DYING, url, receiver.url(), how)
            return program.returncode

        assert await run(step) == -signal.SIGKILL
        assert len(receiver.received) == arrived
        assert await run("lives") == 0
    ids = [request.headers["webhook-id"] for request in receiver.received]
    assert len(set(ids)) == 1
    assert len(ids) == (2 if step == "before it is ended" else 1)
    async with Ficha(url) as app:
        [delivery] = (await app.deliveries(account="ana")).items
        assert (delivery.id, delivery.state) == (ids[0], "delivered")


async def test_a_change_that_is_undone_is_never_told(world: World, tmp_path: Path) -> None:
    """The outbox commits with the change: what a failed commit would have told is not there."""
    app = await open_shop(world, low_credits=999)
    state = await app.engine.store.read(GetState())
    with pytest.raises(Exception, match="payload"):
        await app.submit("upscale", {"picture": "x"}, account="ana")
    after = await app.engine.store.read(GetState())
    assert (state.hooks, after.hooks) == ({}, {})
    await app.submit("upscale", {"image": "x"}, account="ana")
    assert [name for name, _ in (await app.engine.store.read(GetState())).hooks] == ["ficha:credits-low"]
