"""All that one key submitted can be found, cancelled and refunded, by whatever door its jobs came in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.server.test_bulk_acts import ended
from tests.support.server_process import Served


class Key:
    """A new API key, and a client that uses it."""

    def __init__(self, clients: ExitStack, server: Served, scope: str, account: str | None = None) -> None:
        with server.client(server.admin) as admin:
            asked = {"name": f"{scope} {uuid4().hex[:12]}", "scope": scope, "account": account}
            made = admin.post("/api/admin/api-keys", json=asked)
            assert made.status_code == 201, made.text
            told = made.json()
        self.id: str = told["key"]["id"]
        self.actor = f"key {told['key']['hint']}"
        self.client: httpx.Client = clients.enter_context(server.client(told["secret"]))

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        answer = self.client.post(path, json=body, **more) if body is not None else self.client.post(path, **more)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()


@pytest.fixture
def made(server: Served) -> Iterator[Callable[..., Key]]:
    """Makes keys."""
    with ExitStack() as clients:
        yield partial(Key, clients, server)


Made = Callable[..., Key]


def by_every_door(server: Served, key: Key, named: dict[str, str]) -> set[str]:
    """Submits a job by each of the routes that submit; returns the ids of all of them."""
    item = {"tool": "paint", "payload": {"prompt": "a cat"}}
    jobs = {key.post("/api/jobs", item | named)["job_id"], key.post("/api/queue/enqueue", item | named)["job_id"]}
    batch = key.post("/api/batches", {"items": [item, item]} | named)["batch_id"]
    lines = key.post(
        "/api/batches/lines", params=named, content=json.dumps(item), headers={"Content-Type": "application/x-ndjson"}
    )
    jobs.add(lines["job_id"])
    jobs |= {job["id"] for job in key.client.get("/api/jobs", params={"batch": batch, **named}).json()["items"]}
    lease = server.take(next(iter(jobs)))
    with server.client(server.service) as service:
        service.post("/api/worker/finish", json={**lease, "outcome": "failed", "error": "no"}).raise_for_status()
    return jobs


def found(admin: httpx.Client, search: str) -> set[str]:
    answer = admin.get("/api/admin/jobs", params={"search": search, "limit": 100})
    assert answer.status_code == 200, answer.text
    return {job["id"] for job in answer.json()["items"]}


@pytest.mark.parametrize("scope", ["user", "service", "admin"])
def test_all_that_a_key_submitted_is_found_cancelled_and_refunded(
    server: Served, name: str, scope: str, made: Made
) -> None:
    server.account(name)
    key = made(scope, name if scope == "user" else None)
    other = made("service")
    other.post("/api/jobs", {"tool": "paint", "payload": {"prompt": "by another"}, "account": name})
    jobs = by_every_door(server, key, {} if scope == "user" else {"account": name})
    assert len(jobs) == 5
    with server.client(server.admin) as admin:
        assert found(admin, f"key:{key.id}") == jobs
        assert found(admin, f"key:{key.id} state:failed dead:yes") < jobs
        assert {admin.get(f"/api/admin/jobs/{job}").json()["job"]["submitted_by"] for job in jobs} == {key.id}
        before = admin.get(f"/api/admin/accounts/{name}").json()["balance"]
        begun = admin.post(
            "/api/admin/bulk-acts", json={"act": "cancel", "search": f"key:{key.id}", "reason": "the key leaked"}
        ).json()
        assert begun["total"] == 5
        told = ended(admin, begun["id"])
        assert (told["done"], told["failed"]) == (4, 1)
        assert admin.get(f"/api/admin/accounts/{name}").json()["balance"] == before + 4 * 3
        assert found(admin, f"key:{other.id} state:queued") == found(admin, f"key:{other.id}")


def test_a_repeated_run_names_the_key_that_asked_for_it(server: Served, name: str, made: Made) -> None:
    server.account(name)
    first, second, third = made("service"), made("admin"), made("admin")

    def failed(job_id: str) -> str:
        lease = server.take(job_id)
        first.post("/api/worker/finish", {**lease, "outcome": "failed", "error": "no"})
        return job_id

    asked = {"tool": "anything", "payload": {"of": name}, "account": name}
    job = failed(first.post("/api/jobs", asked)["job_id"])
    requeued = second.post(f"/api/admin/dead/{job}/requeue")["job_id"]
    with server.client(server.admin) as admin:
        assert found(admin, f"key:{second.id}") == {requeued}
        failed(requeued)
        act = third.post("/api/admin/bulk-acts", {"act": "requeue", "search": requeued, "reason": "again"})
        ended(admin, act["id"])
        [again] = found(admin, f"key:{third.id}")
        assert admin.get(f"/api/admin/jobs/{again}").json()["job"]["requeue_of"] == requeued
        assert found(admin, f"key:{first.id}") == {job}
    batch = first.post("/api/batches", {"items": [{"tool": "anything"}], "account": name})
    failed(batch["job_id"])
    resumed = made("user", name)
    resumed.post(f"/api/batches/{batch['batch_id']}/resume")
    with server.client(server.admin) as admin:
        [again] = found(admin, f"key:{resumed.id}")
        assert admin.get(f"/api/admin/jobs/{again}").json()["job"]["batch"] == batch["batch_id"]


def test_the_owner_is_not_told_which_key_submitted(server: Served, name: str, made: Made) -> None:
    with server.client(server.account(name)) as user:
        service = made("service")
        job = service.post("/api/jobs", {"tool": "anything", "account": name})["job_id"]
        assert service.client.get(f"/api/jobs/{job}").json()["submitted_by"] == service.id
        assert user.get(f"/api/jobs/{job}").json()["submitted_by"] is None
        assert user.get("/api/jobs").json()["items"][0]["submitted_by"] is None


def test_what_an_admin_does_where_users_do_it_is_in_the_audit_log(server: Served, name: str, made: Made) -> None:
    server.account(name)
    admin, service = made("admin"), made("service")
    for key in (service, admin):
        jobs = by_every_door(server, key, {"account": name})
        held = key.post("/api/reservations", {"account": name})["id"]
        key.post(f"/api/reservations/{held}/release")
        job = key.post("/api/jobs", {"tool": "anything", "account": name})["job_id"]
        server.take(job)
        key.post("/api/queue/finish", {"job_id": job, "status": "completed"})
    lines = admin.client.get("/api/admin/audit", params={"actor": admin.actor, "limit": 100}).json()["items"]
    submits = [line for line in lines if line["act"] == "submit"]
    assert [line["target"] for line in submits] == [f"account {name}"] * 5
    assert {line["details"]["job_id"] for line in submits} <= jobs | {job}
    assert sorted(line["details"]["jobs"] for line in submits) == [1, 1, 1, 1, 2]
    assert {line["act"] for line in lines} == {"submit", "reserve", "release", "finish"}
    assert admin.client.get("/api/admin/audit", params={"actor": service.actor}).json()["items"] == []
