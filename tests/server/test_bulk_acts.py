"""Bulk acts over HTTP: the server itself works on them, for admins; a viewer may look."""

import httpx
import pytest

from ficha.client import Client
from tests.server.test_bad_input import refused
from tests.support.server_process import Served
from tests.support.waiting import until_sync

pytestmark = pytest.mark.long_on("postgresql")


def dead(server: Served, name: str, count: int = 3) -> list[str]:
    """Dead letters of a new account."""
    jobs = []
    with server.client(server.account(name)) as user, server.client(server.service) as service:
        for _ in range(count):
            job_id = user.post("/api/jobs", json={"tool": "anything", "payload": {"of": name}}).json()["job_id"]
            lease = server.take(job_id)
            service.post("/api/worker/finish", json={**lease, "outcome": "failed", "error": "no"}).raise_for_status()
            jobs.append(job_id)
    return jobs


def ended(admin: httpx.Client, bulk_id: str) -> dict:
    """The act, once it has ended."""

    def found() -> dict | None:
        act = admin.get(f"/api/admin/bulk-acts/{bulk_id}").json()
        return act if act["state"] != "running" else None

    return until_sync(found)


def test_an_admin_requeues_all_that_a_search_finds(server: Served, name: str) -> None:
    jobs = dead(server, name)
    search = f"dead:yes account:{name}"
    with server.client(server.admin) as admin:
        begun = admin.post("/api/admin/bulk-acts", json={"act": "requeue", "search": search, "reason": "mended"})
        assert begun.status_code == 201, begun.text
        act = begun.json()
        assert (act["total"], act["search"], act["reason"]) == (3, search, "mended")
        assert act["by"] == admin.get("/api/admin/audit", params={"limit": 1}).json()["items"][0]["actor"]
        told = ended(admin, act["id"])
        assert (told["state"], told["done"], told["failed"], told["failures"]) == ("done", 3, 0, [])
        assert told["ended_at"].endswith("Z")
        assert admin.get("/api/admin/dead", params={"account": name}).json()["items"] == []
        listed = admin.get("/api/admin/bulk-acts", params={"limit": 100}).json()["items"]
        assert [one for one in listed if one["id"] == act["id"]] == [told]
        assert admin.post(f"/api/admin/bulk-acts/{act['id']}/stop").json()["state"] == "done"
        lines = admin.get("/api/admin/audit", params={"limit": 50}).json()["items"]
        mine = [line for line in lines if line["details"].get("bulk_act") == act["id"]]
        assert {line["target"] for line in mine} == {f"job {job_id}" for job_id in jobs}
        assert {(line["act"], line["details"]["reason"]) for line in mine} == {("requeue", "mended")}


def test_what_is_wrong_is_told_and_only_admins_act(server: Served, name: str) -> None:
    good = {"act": "discard", "search": f"account:{name}", "reason": "why"}
    with server.client(server.admin) as admin:
        for bad in ({"act": "delete"}, {"reason": ""}, {"search": "x" * 4_001}):
            assert admin.post("/api/admin/bulk-acts", json=good | bad).status_code == 422
        problem = admin.post("/api/admin/bulk-acts", json=good | {"search": "state:faild"}).json()
        assert (problem["code"], problem["position"]) == ("INVALID_ARGUMENT", 1)
        refused(admin.get("/api/admin/bulk-acts/0198f1a2-7c3e-7d4b-9a51-3f6c2e8b7a10"), 404, "NOT_FOUND")
        viewer = admin.post("/api/admin/api-keys", json={"name": f"viewer {name}", "scope": "viewer"}).json()["secret"]
        act = admin.post("/api/admin/bulk-acts", json=good).json()
    for key, may_look in ((viewer, True), (server.service, False), (server.account(name), False)):
        with server.client(key) as other:
            refused(other.post("/api/admin/bulk-acts", json=good), 403, "FORBIDDEN")
            refused(other.post(f"/api/admin/bulk-acts/{act['id']}/stop"), 403, "FORBIDDEN")
            assert (other.get(f"/api/admin/bulk-acts/{act['id']}").status_code == 200) is may_look
            assert (other.get("/api/admin/bulk-acts").status_code == 200) is may_look


def test_the_client_begins_lists_and_stops(server: Served, name: str) -> None:
    server.account(name)
    with Client(server.url, server.admin) as client:
        begun = client.begin_bulk_act("cancel", f"account:{name} state:queued", reason="why")
        assert begun.total == 0
        assert client.bulk_act(begun.id).id == begun.id
        assert begun.id in [one.id for one in client.bulk_acts(limit=100).items]
        assert client.stop_bulk_act(begun.id).state in ("stopped", "done")


def test_an_admin_refunds_a_part_of_one_job_and_of_many(server: Served, name: str) -> None:
    with (
        server.client(server.account(name)) as user,
        server.client(server.service) as service,
        server.client(server.admin) as admin,
    ):
        jobs = []
        for _ in range(3):
            asked = {"tool": "paint", "payload": {"prompt": name}}
            jobs.append(user.post("/api/jobs", json=asked).json()["job_id"])
            service.post(
                "/api/worker/finish", json={**server.take(jobs[-1]), "outcome": "completed"}
            ).raise_for_status()
        cost = user.get(f"/api/jobs/{jobs[0]}").json()["charged"]
        assert cost == 3
        path, why = f"/api/admin/jobs/{jobs[0]}/refund", {"reason": "slow"}
        for bad in ({"amount": 0}, {"share": 0}, {"share": 1.5}, {"amount": 1.5}, {"amount": 1, "share": 0.5}):
            assert admin.post(path, json=why | bad).status_code == 422
            asked = {"act": "refund", "search": f"account:{name}"} | why | bad
            assert admin.post("/api/admin/bulk-acts", json=asked).status_code == 422
        refused(admin.post(path, json=why | {"amount": cost + 1}), 409, "INVALID_STATE")
        assert admin.post(path, json=why | {"share": 0.001}).json()["refunded"] == 1
        asked = {"act": "refund", "search": f"account:{name}", "amount": 1} | why
        act = ended(admin, admin.post("/api/admin/bulk-acts", json=asked).json()["id"])
        assert (act["done"], act["failed"], act["amount"], act["share"]) == (2, 1, 1, None)
        assert [user.get(f"/api/jobs/{job_id}").json()["refunded"] for job_id in jobs] == [1, 1, 1]
    with Client(server.url, server.admin) as client:
        assert not client.refund(jobs[0], reason="slow", amount=1).changed
        begun = client.begin_bulk_act("refund", f"account:{name}", reason="slow", share=0.25)
        assert (begun.share, begun.amount) == (0.25, None)
