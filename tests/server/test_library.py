"""The library over HTTP: a user's completed work is listed, searched, and removed by nobody else."""

from typing import Any

import pytest

from ficha.client import Client
from tests.server.test_bad_input import refused
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")


def completed(server: Served, key: str, **payload: Any) -> str:
    """A completed job of the pool `cpu`, worked by hand."""
    with server.client(key) as user:
        job_id: str = user.post("/api/jobs", json={"tool": "embed", "payload": payload}).json()["job_id"]
    lease = server.take(job_id)
    with server.client(server.service) as service:
        done = service.post("/api/worker/finish", json={**lease, "outcome": "completed", "result": {"secret": 7}})
        assert done.json()["status"] == "completed", done.text
    return job_id


@pytest.mark.req("D10", "D12")
def test_a_user_finds_and_removes_their_own_work(server: Served, name: str) -> None:
    key, other = server.account(name), server.account(f"{name}-other")
    first, second = completed(server, key, text="one harbour"), completed(server, key, text="two boats")
    with server.client(key) as user:
        page = user.get("/api/library").json()
        assert [item["job"]["id"] for item in page["items"]] == [second, first]
        assert "payload" not in page["items"][0]["job"]
        assert page["next"] is None
        found = user.get("/api/library", params={"search": "HARBOUR", "include": "payload,result"}).json()["items"]
        assert [(item["job"]["payload"], item["job"]["result"]) for item in found] == [
            ({"text": "one harbour"}, {"secret": 7})
        ]
        made = page["items"][0]["job"]["created_at"]
        older = user.get("/api/library", params={"until": made, "tool": "embed"}).json()["items"]
        assert [item["job"]["id"] for item in older] == [first]
        part = user.get("/api/library", params={"limit": 1}).json()
        rest = user.get("/api/library", params={"limit": 1, "cursor": part["next"]}).json()
        assert [item["job"]["id"] for item in rest["items"]] == [first]
        refused(user.get("/api/library", params={"cursor": "forged"}), 422, "INVALID_ARGUMENT")
        refused(user.get("/api/library", params={"account": f"{name}-other"}), 403, "FORBIDDEN")
    with server.client(other) as stranger:
        assert stranger.get("/api/library").json()["items"] == []
        refused(stranger.delete(f"/api/library/{first}"), 404, "NOT_FOUND")
    with server.client(key) as user:
        removed = user.delete(f"/api/library/{first}")
        assert (removed.status_code, removed.json()["changed"]) == (200, True)
        assert user.delete(f"/api/library/{first}").json()["changed"] is False
        job = user.get(f"/api/jobs/{first}").json()
        assert (job["payload"], job["result"], job["charged"]) == (None, None, 2)
        assert job["removed_at"].endswith("Z")
        waiting = user.post("/api/jobs", json={"tool": "embed", "payload": {"text": "three"}}).json()["job_id"]
        refused(user.delete(f"/api/library/{waiting}"), 409, "INVALID_STATE")


@pytest.mark.req("D12")
def test_the_client_lists_and_removes_work(server: Served, name: str) -> None:
    key = server.account(name)
    job_id = completed(server, key, text="one")
    with Client(server.url, key) as client:
        [item] = client.library(search="ONE", include=["payload"]).items
        assert (item.job.id, item.job.payload) == (job_id, {"text": "one"})
        assert client.library(since=item.job.created_at).items != []
        assert client.library(until=item.job.created_at).items == []
        assert client.remove_work(job_id).changed
        assert client.library().items == []
