"""A person's walk with each client, against a real server on each database: open an account, buy, submit, watch,
cancel, see the refund; and every further operation once."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from ficha import (
    EventView,
    IdempotencyMismatch,
    InsufficientCredits,
    InvalidArgument,
    InvalidPayload,
    InvalidState,
    JobView,
    NotFound,
    QuotaExceeded,
    Refused,
    UnknownTool,
)
from ficha.client import AsyncClient, Client, Wait
from tests.support.server_process import Served

CURL = shutil.which("curl") or "curl"
CAT = {"image": "çat"}


def key_for(server: Served, name: str, **of: Any) -> str:
    """What an administrator does for a new customer: an account, 20 credits paid once, a key."""
    with Client(server.url, server.admin) as admin:
        assert admin.open_account(name, **of).balance == 0
        first, again = [admin.grant(name, 20, reason="bought", key="stripe:pay/1") for _ in range(2)]
        assert (first.balance, first.entry, first.idempotent_hit) == (20, 1, False)
        assert (again.balance, again.entry, again.idempotent_hit) == (20, 1, True)
        assert admin.open_account(name, credits=50, exist_ok=True).balance == 20
        made = admin.create_api_key(name, account=name)
        assert (made.key.scope, made.key.account) == ("user", name)
        return made.secret


@pytest.mark.req("C1", "C5", "D2", "A13")
def test_a_persons_walk_with_the_client(server: Served, name: str) -> None:
    with Client(server.url, key_for(server, name, plan="pro")) as me:
        quote = me.quote("upscale", CAT)
        assert (quote.admitted, quote.cost, quote.balance, quote.new_balance) == (True, 5, 20, 15)
        receipt = me.submit("upscale", CAT, idempotency_key="k1", session="s1")
        assert (receipt.status, receipt.cost, receipt.new_balance) == ("queued", 5, 15)
        assert receipt.rate is not None
        assert (receipt.rate.limit, receipt.rate.left) == (999, 998)
        again = me.submit("upscale", CAT, idempotency_key="k1", session="s1")
        assert (again.job_id, again.idempotent_hit, again.new_balance) == (receipt.job_id, True, 15)
        assert me.job(receipt.job_id).payload == CAT
        active = me.active_job()
        assert active is not None
        assert active.id == receipt.job_id
        seen = []
        for happening in me.watch(receipt.job_id):
            if not seen:
                done = me.cancel(receipt.job_id, reason="changed my mind")
                assert (done.changed, done.refunded, done.new_balance) == (True, 5, 20)
            seen.append(happening)
        assert [item.kind for item in seen if isinstance(item, EventView)] == ["submitted", "cancelled"]
        assert isinstance(seen[-1], JobView)
        assert (seen[-1].status, seen[-1].error, seen[-1].refunded) == ("cancelled", "changed my mind", 5)
        assert not me.cancel(receipt.job_id).changed
        lines = me.ledger().items
        assert [(line.kind, line.amount) for line in lines] == [("refund", 5), ("charge", -5), ("grant", 20)]
        assert (me.account().balance, me.active_job()) == (20, None)


@pytest.mark.req("C1", "D2")
async def test_a_persons_walk_with_the_async_client(server: Served, name: str) -> None:
    key = await asyncio.to_thread(key_for, server, name, plan="pro")
    async with AsyncClient(server.url, key) as me:
        receipts = await asyncio.gather(*(me.submit("upscale", CAT, idempotency_key="k1") for _ in range(5)))
        assert len({receipt.job_id for receipt in receipts}) == 1
        job_id = receipts[0].job_id
        kinds = []
        async with aclosing(me.watch(job_id)) as watching:
            async for happening in watching:
                if not kinds:
                    await me.cancel(job_id)
                kinds.append(type(happening))
        assert kinds[-1] is JobView
        assert (await me.wait(job_id)).status == "cancelled"
        lines = (await me.ledger()).items
        assert [(line.kind, line.amount) for line in lines] == [("refund", 5), ("charge", -5), ("grant", 20)]


@pytest.mark.req("C1", "D2")
def test_a_persons_walk_with_curl(server: Served, name: str) -> None:
    def curl(token: str, *arguments: str) -> str:
        done = subprocess.run(  # The token comes from standard input, not as an argument that all may see.
            [CURL, "--silent", "--show-error", "--no-buffer", "--max-time", "30", "--config", "-", *arguments],
            input=f'header = "Authorization: Bearer {token}"\n',
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def post(token: str, path: str, body: dict[str, Any]) -> Any:
        sent = ("--header", "Content-Type: application/json", "--data", json.dumps(body))
        return json.loads(curl(token, *sent, f"{server.url}{path}"))

    assert post(server.admin, "/api/admin/accounts", {"account": name, "credits": 7})["balance"] == 7
    key = post(server.admin, "/api/admin/api-keys", {"name": name, "account": name})["secret"]
    job_id = post(key, "/api/jobs", {"tool": "upscale", "payload": CAT})["job_id"]
    assert post(key, f"/api/jobs/{job_id}/cancel", {})["refunded"] == 5
    stream = curl(key, f"{server.url}/api/jobs/{job_id}/events")
    told = [line for line in stream.splitlines() if line.startswith("event: ")]
    assert (told[0], told[-1]) == ("event: submitted", "event: end")
    assert "event: cancelled" in told
    entries = json.loads(curl(key, f"{server.url}/api/account/ledger"))["items"]
    assert [(entry["kind"], entry["amount"]) for entry in entries] == [("refund", 5), ("charge", -5), ("grant", 7)]


def finish(server: Served, job_id: str, result: Any) -> None:
    """What a worker does."""
    lease = server.take(job_id)
    with server.client(server.service) as worker:
        told = worker.post("/api/worker/report", json={**lease, "progress": 40, "partial": ["a line"]})
        assert told.status_code == 200, told.text
        done = worker.post("/api/worker/finish", json={**lease, "outcome": "completed", "result": result})
        assert done.status_code == 200, done.text


def test_a_job_is_watched_from_the_queue_to_its_result(server: Served, name: str) -> None:
    with Client(server.url, server.account(name)) as me, ThreadPoolExecutor(1) as threads:
        job_id = me.submit("paint", {"prompt": "a lighthouse"}).job_id
        working = threads.submit(finish, server, job_id, {"picture": 1})
        seen = list(me.watch(job_id))
        working.result()
        events = [item for item in seen if isinstance(item, EventView)]
        assert [event.kind for event in events] == ["submitted", "claimed", "started", "partial", "completed"]
        assert [event.number for event in events] == sorted({event.number for event in events})
        assert isinstance(seen[-1], JobView)
        assert (seen[-1].status, seen[-1].result) == ("completed", {"picture": 1})
        assert all(isinstance(item, EventView | Wait | JobView) for item in seen)
        assert me.events(job=job_id) == events
        assert [event.number for event in me.watch(job_id, after=events[2].number) if isinstance(event, EventView)] == [
            event.number for event in events[3:]
        ]
        mine = [event for event in me.events(limit=1_000) if event.job_id == job_id]
        assert [(event.kind, event.data, event.at) for event in mine] == [
            (event.kind, event.data, event.at) for event in events
        ]
        assert me.events(after=mine[-2].number)[0] == mine[-1]


def test_asking_and_listening_tell_the_same(server: Served, name: str) -> None:
    key = server.account(name)
    with Client(server.url, key) as me, ThreadPoolExecutor(2) as threads:
        job_id = me.submit("paint", {"prompt": "a lighthouse"}).job_id
        listening = threads.submit(lambda: list(me.watch(job_id)))
        asking = threads.submit(_asked, server.url, key, job_id)
        finish(server, job_id, 1)
        live, asked = listening.result(30), asking.result(30)
    assert [item for item in asked if isinstance(item, EventView)] == [
        item for item in live if isinstance(item, EventView)
    ]
    assert asked[-1] == live[-1]


class OnlyJson(httpx.HTTPTransport):
    """A door that no stream passes."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.headers["accept"] == "text/event-stream":
            return httpx.Response(502, request=request)
        return super().handle_request(request)


def _asked(url: str, key: str, job_id: str) -> list[Any]:
    with Client(url, key, transport=OnlyJson()) as client:
        return list(client.watch(job_id))


def test_waiting_for_a_result(server: Served, name: str) -> None:
    with Client(server.url, server.account(name)) as me, ThreadPoolExecutor(1) as threads:
        job_id = me.submit("paint", {"prompt": "x"}).job_id
        with pytest.raises(TimeoutError, match=f"job {job_id} is still queued; it goes on by itself"):
            me.wait(job_id, 0.5)
        working = threads.submit(finish, server, job_id, [1, 2])
        assert me.wait(job_id, 30).result == [1, 2]
        working.result()
        assert me.wait(job_id).status == "completed", "also one that has ended"
        assert [item.status for item in me.watch(job_id) if isinstance(item, JobView)] == ["completed"]


def test_a_short_job_is_submitted_and_waited_for_in_one_call(server: Served, name: str) -> None:
    with Client(server.url, server.account(name)) as me:
        finish(server, me.submit("embed", {"text": name}).job_id, 16)
        # What was computed before is there at once.
        job = me.submit_and_wait("embed", {"text": name}, timeout_s=20)
        assert (job.status, job.result, job.cost) == ("completed", 16, 0)
        with pytest.raises(TimeoutError):
            me.submit_and_wait("paint", {"prompt": "x"}, timeout_s=1)


@pytest.mark.req("C3")
def test_refusals_are_the_same_exceptions_as_in_process(server: Served, name: str) -> None:
    with Client(server.url, server.account(name, plan="trio", credits=30)) as me:
        me.submit("upscale", CAT, idempotency_key="k")
        expected: list[tuple[type[Refused], Callable[[], object], str]] = [
            (UnknownTool, lambda: me.submit("nothing", {}), "there is no tool 'nothing'"),
            (InvalidPayload, lambda: me.submit("upscale", {"image": 5}), "nothing was changed"),
            (IdempotencyMismatch, lambda: me.submit("upscale", {"image": "other"}, idempotency_key="k"), "k"),
            (NotFound, lambda: me.job("0190f2c4-0000-7000-8000-000000000001"), "there is no job 0190f2c4"),
            (InvalidArgument, lambda: me.jobs(limit=5_000), "limit"),
            (InvalidArgument, lambda: me.jobs(after="made-up"), "cursor"),
            (
                InsufficientCredits,
                lambda: me.submit("video", {"seconds": 60}) and me.submit("video", {}),
                "Add credits",
            ),
        ]
        for kind, call, words in expected:
            with pytest.raises(kind) as told:
                call()
            assert words in str(told.value)
            assert not told.value.retryable
        assert told.value.details == {"have": 5, "need": 20}
        holds = [me.reserve()]
        with pytest.raises(QuotaExceeded):
            me.reserve()
        assert me.release(holds[0].id).state == "released"
        with pytest.raises(Refused, match="this is for admin, viewer keys") as told_off:
            me.accounts()
        assert told_off.value.code == "FORBIDDEN"
    with Client(server.url, "ficha_user_nonsense") as nobody, pytest.raises(Refused) as unknown:
        nobody.account()
    assert unknown.value.code == "UNAUTHENTICATED"


def test_lists_go_on_with_the_servers_cursors(server: Served, name: str) -> None:
    with Client(server.url, server.account(name)) as me:
        made = [me.submit("embed", {"text": f"{name} {number}"}).job_id for number in range(5)]
        found: list[str] = []
        after = None
        while True:
            page = me.jobs(after=after, limit=2)
            found += [job.id for job in page.items]
            if (after := page.next) is None:
                break
        assert found == made[::-1]
        assert [job.id for job in me.jobs(statuses=["completed", "failed"]).items] == []
        assert len(me.jobs(statuses=["queued", "running"], tool="embed", pool="cpu").items) == 5
        first = me.ledger(limit=4)
        rest = me.ledger(before=first.next, limit=4)
        assert [entry.kind for entry in [*first.items, *rest.items]] == ["charge"] * 5 + ["grant"]


@pytest.mark.req("C2", "E6")
def test_reservations_and_batches(server: Served, name: str) -> None:
    with Client(server.url, server.account(name)) as me:
        hold = me.reserve(ttl_s=60)
        used = me.submit("upscale", CAT, reservation=hold.id)
        assert [(one.id, one.state, one.job_id) for one in me.reservations().items] == [
            (hold.id, "consumed", used.job_id)
        ]
        with pytest.raises(InvalidState):
            me.release(hold.id)
        other = me.reserve()
        assert me.consume(other.id).state == "consumed"
        receipt = me.submit_batch([("upscale", CAT), ("embed", {"text": name})], idempotency_key="b1")
        assert receipt.batch_id is not None
        assert me.submit_batch([("upscale", CAT), ("embed", {"text": name})], idempotency_key="b1").idempotent_hit
        joined = me.submit("upscale", CAT, batch=receipt.batch_id)
        assert me.job(joined.job_id).batch == receipt.batch_id
        assert me.batch(receipt.batch_id).by_status == {"queued": 3}
        with Client(server.url, server.service) as service:
            assert service.batch(receipt.batch_id, by_checkpoint=True).by_checkpoint == {"": 3}
        assert me.cancel_batch(receipt.batch_id, reason="enough") == 3
        assert me.resume_batch(receipt.batch_id).resumed == 0
        assert me.batch(receipt.batch_id).progress == 100


@pytest.mark.req("D10")
def test_a_token_for_one_job_opens_that_job(server: Served, name: str) -> None:
    with Client(server.url, server.account(name)) as me:
        job_id, other = (me.submit("upscale", CAT).job_id for _ in range(2))
        made = me.job_token(job_id, ttl_s=60)
        assert made.token not in repr(made)
    with Client(server.url, made.token) as browser:
        assert browser.job(job_id).id == job_id
        with pytest.raises(NotFound):
            browser.job(other)
        with pytest.raises(Refused):
            browser.account()
        assert browser.cancel(job_id).changed
        assert browser.wait(job_id).status == "cancelled"


@pytest.mark.req("C7", "E5")
def test_whoever_operates_has_all_operations(server: Served, name: str) -> None:
    with Client(server.url, server.admin) as admin, Client(server.url, server.account(name)) as me:
        assert admin.change_plan(name, "pro").plan == "pro"
        assert admin.adjust(name, -10, reason="mistake", key="fix").balance == 90
        assert name in {found.id for found in _all(admin.accounts)}
        prices = {tool.name: tool.price for tool in me.tools()}
        assert (prices["upscale"], prices["images"]) == (5, None)
        assert {pool.name for pool in admin.pools()} >= {"cpu", "gpu"}
        assert admin.resize_pool("gpu", 2).slots == 2
        assert admin.resize_pool("gpu", None).slots == 3
        assert admin.pause_pool("gpu").paused
        assert not admin.resume_pool("gpu").paused
        job_id = me.submit("broken", {}, idempotency_key="dead").job_id
        lease = server.take(job_id)
        with server.client(server.service) as worker:
            ended = {**lease, "outcome": "failed", "error": "the provider said no"}
            assert worker.post("/api/worker/finish", json=ended).status_code == 200
        assert job_id in {job.id for job in _all(admin.dead_letters, account=name)}
        again = admin.requeue(job_id)
        assert admin.job(again).requeue_of == job_id
        assert not admin.discard(job_id).changed
        assert admin.recover(again).act == "nothing"
        assert admin.sweep().keys >= 0
        assert admin.stats().by_status["queued"] >= 1
        assert len(admin.overview("1h").times) == 60
        assert admin.stuck().items == []
        assert "tests" in {worker.name for worker in _all(admin.workers)}
        assert [key.key for key in admin.idempotency_keys(account=name).items] == ["dead", "fix"]
        key = admin.create_api_key(f"ci of {name}", account=name, ttl_s=60).key
        assert admin.revoke_api_key(key.id).state == "revoked"
        assert key.id in {found.id for found in _all(admin.api_keys)}
        assert any(key.id in line.target for line in admin.audit(limit=1_000).items)


def _all(ask: Callable[..., Any], **of: Any) -> list[Any]:
    found: list[Any] = []
    after = None
    while True:
        page = ask(after=after, limit=100, **of)
        found += page.items
        if (after := page.next) is None:
            return found


def test_an_operator_searches_and_reads_pages(server: Served, name: str) -> None:
    with Client(server.url, server.account(name)) as user, Client(server.url, server.admin) as admin:
        receipt = user.submit("anything", {"token": "x", "n": 1}, session=name)
        found = admin.search_jobs(f"session:{name} state:queued")
        assert [job.id for job in found.items] == [receipt.job_id]
        assert admin.search_jobs().looked_at >= 1
        assert admin.count_jobs(f"session:{name}").count == 1
        page = admin.job_page(receipt.job_id)
        assert page.job.payload == {"token": "[hidden]", "n": 1}
        assert "cancel" in page.acts
        assert "anything" in admin.search_words().tools
        assert admin.dead_groups().is_whole in (True, False)
        assert user.batches().items == []
        assert [account.id for account in admin.accounts(search=name).items] == [name]
        assert admin.audit(target=f"account {name}", actor="nobody").items == []
        with pytest.raises(InvalidArgument, match='"dead:x" at 1'):
            admin.search_jobs("dead:x")
