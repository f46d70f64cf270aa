"""The shop as its users, its payment service and its provider meet it."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import jwt
import pytest
import signatures
from jobs import app
from sqlalchemy import func, select
from tables import Order, Payment, sessions


def token(user: str, **claims: Any) -> dict[str, str]:
    """The header of a user who signed in."""
    now = int(time.time())
    usual = {"sub": user, "aud": signatures.AUDIENCE, "iss": signatures.ISSUER, "iat": now, "exp": now + 900}
    text = jwt.encode({**usual, "role": "authenticated", **claims}, signatures.JWT_SECRET, algorithm="HS256")
    return {"Authorization": f"Bearer {text}"}


def signed(body: dict[str, Any]) -> dict[str, Any]:
    content = json.dumps(body).encode()
    return {"content": content, "headers": {"Signature": signatures.signed(content, int(time.time()))}}


def new_user() -> str:
    return f"user-{uuid4()}"


async def rows(table: Any) -> int:
    async with sessions() as session:
        return await session.scalar(select(func.count()).select_from(table)) or 0


async def ordered(shop: httpx.AsyncClient, user: str, tool: str, payload: dict[str, Any], **more: Any) -> str:
    answer = await shop.post(
        "/orders", json={"tool": tool, "payload": payload, "title": tool}, headers=token(user), **more
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["job"]


async def pay(shop: httpx.AsyncClient, user: str, credits: int, payment: str = "") -> dict[str, Any]:
    told = {"payment": payment or f"pay_{uuid4()}", "user": user, "credits": credits}
    answer = await shop.post("/payments/webhook", **signed(told))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_payment_is_credited_once_however_often_it_is_told(shop: httpx.AsyncClient) -> None:
    user, payment = new_user(), f"pay_{uuid4()}"
    answers = await asyncio.gather(*(pay(shop, user, 100, payment) for _ in range(8)))
    answers.append(await pay(shop, user, 100, payment))
    assert sorted(answer["credited"] for answer in answers) == [False] * 8 + [True]
    assert (await app.account(user)).balance == 3 + 100
    assert await rows(Payment) == 1


async def test_a_payment_that_nobody_signed_is_refused(shop: httpx.AsyncClient) -> None:
    told = {"payment": "pay_1", "user": new_user(), "credits": 10**6}
    forged = signed({**told, "credits": 1})
    forged["content"] = json.dumps(told).encode()
    old = {"content": b"{}", "headers": {"Signature": signatures.signed(b"{}", int(time.time()) - 3_600)}}
    for call in (forged, old, {"json": told}):
        assert (await shop.post("/payments/webhook", **call)).status_code == 401
    assert await rows(Payment) == 0


async def test_an_order_and_its_job_exist_both_or_not_at_all(shop: httpx.AsyncClient) -> None:
    user = new_user()
    job_id = await ordered(shop, user, "upscale", {"image": "cat.png"})
    assert (await app.job(job_id)).charged == 2
    # Ficha says no: nothing of the shop's is kept.
    refused = await shop.post(
        "/orders", json={"tool": "video", "payload": {"prompt": "x"}, "title": "x"}, headers=token(user)
    )
    assert (refused.status_code, refused.json()["code"]) == (402, "INSUFFICIENT_CREDITS")
    # The shop's own table says no: nothing is charged.
    with pytest.raises(Exception, match="too long"):
        await shop.post(
            "/orders", json={"tool": "caption", "payload": {"image": "x"}, "title": "x" * 41}, headers=token(user)
        )
    assert await rows(Order) == 1
    assert ((await app.account(user)).balance, len((await app.jobs(account=user)).items)) == (1, 1)


async def test_a_click_that_is_sent_twice_is_one_order(shop: httpx.AsyncClient) -> None:
    user = new_user()
    headers = {**token(user), "Idempotency-Key": "click-1"}
    body = {"tool": "upscale", "payload": {"image": "cat.png"}, "title": "cat"}
    answers = await asyncio.gather(*(shop.post("/orders", json=body, headers=headers) for _ in range(4)))
    assert len({answer.json()["job"] for answer in answers}) == 1
    assert ((await app.account(user)).balance, await rows(Order)) == (1, 1)


async def test_all_four_tools_are_worked_by_two_workers_and_every_order_learns_its_end(shop: httpx.AsyncClient) -> None:
    user = new_user()
    await pay(shop, user, 100)
    jobs = {
        "upscale": await ordered(shop, user, "upscale", {"image": "cat.png", "scale": 4}),
        "caption": await ordered(shop, user, "caption", {"image": f"{user}.png"}),
        "embed": await ordered(shop, user, "embed", {"texts": ["a", "b", "c"]}),
        "video": await ordered(shop, user, "video", {"prompt": "waves"}),
        "no video": await ordered(shop, user, "video", {"prompt": "war"}),
    }
    await work()
    told = {job["title"]: job for job in (await shop.get("/orders", headers=token(user))).json()}
    assert told["video"]["status"] == "open"
    for name, outcome in (("video", {"url": "https://videos.example/1"}), ("no video", {"error": "not allowed"})):
        for _ in range(2):  # a provider may call twice
            answer = await shop.post("/video/webhook", **signed({"ref": f"video-{jobs[name]}", **outcome}))
            assert answer.status_code == 200, answer.text
        await work()  # the plan `free` lets one job at a time be under way, with a provider too
    found = {job["job"]: job["status"] for job in (await shop.get("/orders", headers=token(user))).json()}
    assert {name: found[job_id] for name, job_id in jobs.items()} == {
        **dict.fromkeys(("upscale", "caption", "embed", "video"), "completed"),
        "no video": "failed",
    }
    shown = (await shop.get(f"/orders/{jobs['upscale']}", headers=token(user))).json()
    assert (shown["status"], shown["result"]) == ("completed", {"image": "cat.png@4x"})
    assert (await app.account(user)).balance == 103 - 2 - 1 - 3 - 20
    assert await app.verify() == []


async def work() -> None:
    """Two workers, until there is nothing to do."""
    await asyncio.gather(*(app.run_worker(burst=True, worker=f"worker-{number}") for number in (1, 2)))


async def test_equal_captions_of_a_user_are_computed_once_and_the_second_is_free(shop: httpx.AsyncClient) -> None:
    user, other, image = new_user(), new_user(), f"{uuid4()}.png"
    await ordered(shop, user, "caption", {"image": image})
    await work()
    for who in (user, other):
        await ordered(shop, who, "caption", {"image": image})
    assert ((await app.account(user)).balance, (await app.account(other)).balance) == (2, 2)


@pytest.mark.parametrize(
    "broken",
    [
        lambda user: {},
        lambda user: {"Authorization": "Bearer nonsense"},
        lambda user: token(user, aud="anon"),
        lambda user: token(user, exp=1),
        lambda user: token(user, iss="https://elsewhere.example"),
        lambda user: {"Authorization": f"Bearer {jwt.encode({'sub': user}, 'x' * 40, algorithm='HS256')}"},
    ],
    ids=["none", "nonsense", "another audience", "expired", "another issuer", "another secret"],
)
async def test_nobody_comes_in_without_a_valid_token(
    shop: httpx.AsyncClient, broken: Callable[[str], dict[str, str]]
) -> None:
    headers = broken(new_user())
    assert (await shop.get("/orders", headers=headers)).status_code == 401
    assert (await shop.get("/jobs/api/account", headers=headers)).status_code == 401


async def test_the_same_token_is_good_for_fichas_own_api_and_shows_ones_own_jobs_alone(shop: httpx.AsyncClient) -> None:
    user, other = new_user(), new_user()
    job_id = await ordered(shop, user, "upscale", {"image": "cat.png"})
    assert (await shop.get("/orders", headers=token(other))).json() == []
    assert (await shop.get(f"/orders/{job_id}", headers=token(other))).status_code == 404
    assert (await shop.get(f"/jobs/api/jobs/{job_id}", headers=token(other))).status_code == 404
    mine = (await shop.get("/jobs/api/account", headers=token(user))).json()
    assert (mine["id"], mine["balance"]) == (user, 1)
    events = await shop.get(f"/jobs/api/jobs/{job_id}/events", headers={**token(user), "Accept": "application/json"})
    assert [event["kind"] for event in events.json()["items"]] == ["submitted"]
