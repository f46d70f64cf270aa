"""Many requests at once at every route that moves money: exactly what the balance allows is accepted."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.support.server_process import NO_TLS, Served

# One process writes at a time on SQLite.
pytestmark = pytest.mark.long_on("sqlite")
AT_ONCE = 50


async def _together(server: Served, requests: list[tuple[str, str, Any]]) -> list[httpx.Response]:
    """All of them at the same moment, each on a connection of its own that is open already."""
    limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
    async with httpx.AsyncClient(
        base_url=server.url, limits=limits, timeout=60, trust_env=False, verify=NO_TLS
    ) as client:
        await asyncio.gather(*(client.get("/healthz") for _ in requests))
        return await asyncio.gather(
            *(
                client.post(path, json=body, headers={"Authorization": f"Bearer {token}"})
                for token, path, body in requests
            )
        )


def _codes(answers: list[httpx.Response]) -> Counter[str]:
    return Counter("ok" if answer.is_success else answer.json()["code"] for answer in answers)


@pytest.mark.req("D1", "D2")
def test_fifty_submits_at_once_take_what_the_balance_allows(server: Served, name: str) -> None:
    key = server.account(name, credits=37)
    body = {"tool": "upscale", "payload": {"image": "x"}}

    answers = asyncio.run(_together(server, [(key, "/api/jobs", body)] * AT_ONCE))

    assert _codes(answers) == {"ok": 7, "INSUFFICIENT_CREDITS": 43}
    with server.client(key) as user:
        assert user.get("/api/account").json()["balance"] == 2
        assert user.get("/api/account").json()["active"] == 7


@pytest.mark.req("C1")
def test_fifty_submits_with_one_key_make_one_job(server: Served, name: str) -> None:
    key = server.account(name)
    body = {"tool": "upscale", "payload": {"image": "x"}, "idempotency_key": "k"}

    answers = asyncio.run(_together(server, [(key, "/api/jobs", body)] * AT_ONCE))

    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: AT_ONCE - 1}
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    with server.client(key) as user:
        assert user.get("/api/account").json()["balance"] == 95


def test_fifty_batches_at_once_are_each_all_or_none(server: Served, name: str) -> None:
    key = server.account(name, credits=64)
    body = {"items": [{"tool": "upscale", "payload": {"image": str(n)}} for n in range(3)]}

    answers = asyncio.run(_together(server, [(key, "/api/batches", body)] * AT_ONCE))

    assert _codes(answers) == {"ok": 4, "INSUFFICIENT_CREDITS": 46}
    with server.client(key) as user:
        assert user.get("/api/account").json()["balance"] == 4


@pytest.mark.req("A6")
def test_fifty_cancels_at_once_refund_once(server: Served, name: str) -> None:
    key = server.account(name)
    with server.client(key) as user:
        job = user.post("/api/jobs", json={"tool": "upscale", "payload": {"image": "x"}}).json()["job_id"]

    answers = asyncio.run(_together(server, [(key, f"/api/jobs/{job}/cancel", {})] * AT_ONCE))

    assert [answer.json()["changed"] for answer in answers].count(True) == 1
    with server.client(key) as user:
        assert user.get("/api/account").json()["balance"] == 100
        assert [entry["kind"] for entry in user.get("/api/account/ledger").json()["items"]].count("refund") == 1


@pytest.mark.req("A5", "A6")
def test_a_finish_and_many_cancels_at_once_end_the_job_in_one_way(server: Served, name: str) -> None:
    key = server.account(name)
    with server.client(key) as user:
        job = user.post("/api/jobs", json={"tool": "embed", "payload": {"text": name}}).json()["job_id"]
    server.take(job)
    ends = [(server.service, "/api/queue/finish", {"job_id": job, "status": "failed", "error": "no"})] * 25
    cancels = [(key, f"/api/jobs/{job}/cancel", {})] * 25

    answers = asyncio.run(_together(server, [*ends, *cancels]))

    assert sum(answer.is_success and answer.json()["changed"] for answer in answers) == 1
    with server.client(key) as user:
        assert user.get(f"/api/jobs/{job}").json()["refunded"] == 2
        assert user.get("/api/account").json()["balance"] == 100


def test_fifty_grants_with_one_key_add_once(server: Served, name: str) -> None:
    server.account(name, credits=0)
    body = {"amount": 10, "reason": "paid", "key": "payment-1"}

    answers = asyncio.run(_together(server, [(server.admin, f"/api/admin/accounts/{name}/grant", body)] * AT_ONCE))

    assert all(answer.is_success for answer in answers)
    with server.client(server.admin) as admin:
        assert admin.get(f"/api/admin/accounts/{name}").json()["balance"] == 10


def test_fifty_corrections_at_once_never_go_below_zero(server: Served, name: str) -> None:
    server.account(name, credits=23)
    body = {"amount": -4, "reason": "taken back"}

    answers = asyncio.run(_together(server, [(server.admin, f"/api/admin/accounts/{name}/adjust", body)] * AT_ONCE))

    assert _codes(answers) == {"ok": 5, "INSUFFICIENT_CREDITS": 45}
    with server.client(server.admin) as admin:
        assert admin.get(f"/api/admin/accounts/{name}").json()["balance"] == 3


@pytest.mark.req("C2")
def test_fifty_reservations_at_once_take_the_slots_there_are(server: Served, name: str) -> None:
    key = server.account(name, plan="trio")

    answers = asyncio.run(_together(server, [(key, "/api/reservations", {})] * AT_ONCE))

    assert _codes(answers) == {"ok": 3, "QUOTA_EXCEEDED": 47}


def test_a_dead_letter_is_requeued_as_often_as_it_is_paid_for(server: Served, name: str) -> None:
    key = server.account(name, credits=2)
    with server.client(key) as user, server.client(server.service) as service:
        job = user.post("/api/jobs", json={"tool": "embed", "payload": {"text": name}}).json()["job_id"]
        lease = server.take(job)
        service.post("/api/worker/finish", json={**lease, "outcome": "failed", "error": "no"}).raise_for_status()

    answers = asyncio.run(_together(server, [(server.admin, f"/api/admin/dead/{job}/requeue", None)] * AT_ONCE))

    assert sum(answer.is_success for answer in answers) == 1
    with server.client(key) as user:
        assert user.get("/api/account").json()["balance"] == 0
