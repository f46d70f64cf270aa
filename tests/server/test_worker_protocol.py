"""The worker protocol and the queue manager: a worker needs only HTTP, and a lease that was lost can write nothing."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ficha import Ficha, Plan, Pool
from ficha.server import Settings
from tests.server.test_bad_input import refused
from tests.support.server_process import SECRET, Served


@pytest.fixture
def service(server: Served) -> Iterator[httpx.Client]:
    with server.client(server.service) as client:
        yield client


@pytest.fixture
def user(server: Served, name: str) -> Iterator[httpx.Client]:
    with server.client(server.account(name)) as client:
        yield client


def submit(user: httpx.Client, tool: str, **payload: Any) -> str:
    job: str = user.post("/api/jobs", json={"tool": tool, "payload": payload}).json()["job_id"]
    return job


@pytest.mark.req("E1", "E2", "E3")
def test_a_worker_over_http_resumes_where_the_last_one_stopped(
    server: Served, user: httpx.Client, service: httpx.Client, name: str
) -> None:
    job = submit(user, "embed", text=name)
    first = server.take(job)
    step = service.post("/api/worker/step", json={**first, "name": "download", "result": {"bytes": 7}})
    assert step.json()["result"] == {"bytes": 7}
    again = service.post("/api/worker/step", json={**first, "name": "download", "result": {"bytes": 8}})
    assert again.json()["result"] == {"bytes": 7}
    service.post(
        "/api/worker/checkpoint", json={**first, "name": "HALF", "progress": 50, "data": [1]}
    ).raise_for_status()
    service.post("/api/worker/report", json={**first, "progress": 60, "partial": {"n": 1}}).raise_for_status()
    service.post("/api/worker/log", json={**first, "text": "half way"}).raise_for_status()
    seen = user.get(f"/api/jobs/{job}").json()
    assert (seen["status"], seen["checkpoint"], seen["progress"], seen["partial"]) == ("running", "HALF", 60, {"n": 1})
    assert service.get(f"/api/jobs/{job}").json()["locked_by"].startswith("tests")

    service.post("/api/worker/finish", json={**first, "outcome": "returned", "reason": "deploy"}).raise_for_status()
    leases = service.post("/api/worker/claim", json={"worker": "second", "pools": ["cpu"], "limit": 1000}).json()
    lease = next(lease for lease in leases["leases"] if lease["job_id"] == job)
    assert lease["epoch"] > first["epoch"]
    assert (lease["checkpoint"], lease["resume_data"], lease["steps"]) == ("HALF", [1], {"download": {"bytes": 7}})
    assert (lease["tool"], lease["payload"], lease["account"]) == ("embed", {"text": name}, name)

    second = {"job_id": job, "epoch": lease["epoch"]}
    done = service.post("/api/worker/finish", json={**second, "outcome": "completed", "result": {"ok": True}}).json()
    assert (done["status"], done["changed"]) == ("completed", True)
    assert user.get(f"/api/jobs/{job}").json()["result"] == {"ok": True}


@pytest.mark.req("B5")
def test_a_lease_that_was_lost_can_write_nothing(
    server: Served, user: httpx.Client, service: httpx.Client, name: str
) -> None:
    job = submit(user, "embed", text=name)
    lease = server.take(job)
    beats = service.post("/api/worker/heartbeat", json={"leases": [lease]}).json()["leases"]
    assert beats[0]["expires_at"] is not None
    user.post(f"/api/jobs/{job}/cancel").raise_for_status()

    beats = service.post("/api/worker/heartbeat", json={"leases": [lease]}).json()["leases"]
    assert (beats[0]["code"], beats[0]["expires_at"]) == ("LEASE_LOST", None)
    for path, more in {
        "checkpoint": {"name": "X"},
        "step": {"name": "s", "result": 1},
        "report": {"progress": 5},
        "log": {"text": "still here"},
    }.items():
        refused(service.post(f"/api/worker/{path}", json={**lease, **more}), 409, "LEASE_LOST")
    late = service.post("/api/worker/finish", json={**lease, "outcome": "completed"})
    assert late.status_code == 409 or late.json()["changed"] is False
    assert user.get(f"/api/jobs/{job}").json()["status"] == "cancelled"


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ({"outcome": "failed", "error": "no", "final": True}, "failed"),
        ({"outcome": "failed", "error": "no"}, "queued"),
        ({"outcome": "retry", "after_s": 60, "reason": "busy"}, "queued"),
        ({"outcome": "cancelled", "reason": "makes no sense"}, "cancelled"),
        ({"outcome": "accepted", "ref": "provider-1"}, "running"),
        ({"outcome": "returned"}, "queued"),
    ],
    ids=["final", "failed", "retry", "cancelled", "accepted", "returned"],
)
def test_a_run_ends_in_each_of_its_ways(
    server: Served, user: httpx.Client, service: httpx.Client, ending: dict[str, Any], status: str
) -> None:
    job = submit(user, "stubborn")

    answer = service.post("/api/worker/finish", json={**server.take(job), **ending})

    assert answer.status_code == 200, answer.text
    found = user.get(f"/api/jobs/{job}").json()
    assert found["status"] == status
    assert found["refunded"] == (3 if status in ("failed", "cancelled") else 0)


def test_accepted_without_a_reference_is_told(server: Served, user: httpx.Client, service: httpx.Client) -> None:
    lease = server.take(submit(user, "stubborn"))

    refused(service.post("/api/worker/finish", json={**lease, "outcome": "accepted"}), 422, "INVALID_ARGUMENT")


def test_a_claim_waits_for_work_and_gets_it_when_it_comes(server: Served, service: httpx.Client) -> None:
    """A pool that no other test uses, so that the wait is for nothing."""
    asked = {"worker": "idle", "pools": ["default"], "wait_s": 1}

    assert service.post("/api/worker/claim", json=asked).json() == {"leases": []}


@pytest.mark.req("A10", "A5")
def test_the_queue_manager_checks_takes_and_finishes(
    server: Served, user: httpx.Client, service: httpx.Client, name: str
) -> None:
    room = user.get("/api/queue/check", params={"pool": "gpu"}).json()
    assert room["slots"] == 3
    assert room["slots_available"] == 3 - room["busy"]
    queued = user.post("/api/queue/enqueue", json={"tool": "embed", "payload": {"text": name}})
    assert queued.status_code == 201
    job = queued.json()["job_id"]
    assert user.get("/api/queue/check-user-active").json()["job_id"] == job
    assert user.get("/api/queue/check", params={"pool": "cpu"}).json()["queue_length"] >= 1

    taken = service.post("/api/queue/process-next", json={"worker": "manager", "pools": ["cpu"], "limit": 1000}).json()
    epoch = next(lease["epoch"] for lease in taken["leases"] if lease["job_id"] == job)
    ending = {"job_id": job, "status": "completed", "result": {"n": 1}, "epoch": epoch}
    assert service.post("/api/queue/finish", json=ending).json()["changed"] is True
    late = service.post("/api/queue/finish", json={"job_id": job, "status": "failed", "error": "late"}).json()
    assert (late["changed"], late["status"], late["refunded"]) == (False, "completed", 0)
    refused(user.get("/api/queue/check", params={"pool": "nothing"}), 404, "NOT_FOUND")


@pytest.mark.req("A10")
async def test_the_queue_manager_always_says_a_number_of_free_slots() -> None:
    pools = [Pool("gpu", slots=3), Pool("api", slots=2), Pool("cpu"), Pool("unused", slots=50)]
    async with Ficha("memory://", plans=[Plan("open")], pools=pools) as app:
        for pool in ("gpu", "api", "cpu"):
            app.tool(name=f"on-{pool}", pool=pool)(idle)
        await app.open_account("ana")
        key = (await app.create_api_key("ana", account="ana")).secret
        transport = httpx.ASGITransport(app.asgi(Settings(secret=SECRET)))
        login = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=login) as client:

            async def slots(**asked: str) -> tuple[int | None, int]:
                told = (await client.get("/api/queue/check", params=asked)).json()
                return told["slots"], told["slots_available"]

            assert await slots() == (5, 5)
            for _ in range(4):
                await app.submit("on-gpu", account="ana")
            await app.claim("gpu", limit=4, worker="w")
            assert await slots() == (5, 2)
            assert await slots(pool="gpu") == (3, 0)
            await app.pause_pool("api")
            assert await slots() == (5, 0)
            assert await slots(pool="unused") == (50, 50)
            assert await slots(pool="cpu") == (None, 2**31 - 1)
            await app.pause_pool("cpu")
            assert await slots(pool="cpu") == (None, 0)


async def idle(job: object) -> None: ...


async def test_without_a_limit_there_is_always_a_free_slot() -> None:
    async with Ficha("memory://", plans=[Plan("open")]) as app:
        app.tool(idle)
        key = (await app.create_api_key("root", scope="admin")).secret
        transport = httpx.ASGITransport(app.asgi(Settings(secret=SECRET)))
        login = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=login) as client:
            told = (await client.get("/api/queue/check")).json()
    assert (told["slots"], told["slots_available"]) == (None, 2**31 - 1)


@pytest.mark.req("A4")
def test_a_provider_s_own_words_reach_the_person_and_the_credits_come_back(
    server: Served, user: httpx.Client, service: httpx.Client, name: str
) -> None:
    job = submit(user, "embed", text=name)
    server.take(job)

    words = {"error": "NSFW content detected", "for_user": True}
    service.post("/api/queue/finish", json={"job_id": job, "status": "failed", **words})

    found = user.get(f"/api/jobs/{job}").json()
    assert (found["status"], found["error"], found["refunded"]) == ("failed", "NSFW content detected", 2)
