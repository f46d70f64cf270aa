"""What an operator's pages read over HTTP: searches, counts, a job's page, groups, lists that are polled."""

from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from tests.server.test_bad_input import refused
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")


@pytest.fixture
def viewer(server: Served) -> Iterator[httpx.Client]:
    with server.client(server.viewer) as client:
        yield client


def submitted(user: httpx.Client, tool: str = "anything", **options: object) -> str:
    answer = user.post("/api/jobs", json={"tool": tool, "payload": {"password": "hunter2"}, **options})
    answer.raise_for_status()
    return str(answer.json()["job_id"])


def failed(server: Served, user: httpx.Client, error: str) -> str:
    job = submitted(user)
    lease = server.take(job)
    with server.client(server.service) as service:
        service.post("/api/worker/finish", json={**lease, "outcome": "failed", "error": error}).raise_for_status()
    return job


def test_jobs_are_searched_counted_and_paged(server: Served, viewer: httpx.Client, name: str) -> None:
    with server.client(server.account(name)) as user:
        first, second = submitted(user, session=name), submitted(user, session=name)
        dead = failed(server, user, f"no {name}")

    def found(search: str, **more: object) -> dict[str, object]:
        answer = viewer.get("/api/admin/jobs", params={"search": search, **more})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    page = found(f"account:{name}")
    assert [job["id"] for job in page["items"]] == [dead, second, first]
    assert (page["next"], page["looked_at"], page["is_whole"], page["back_to"]) == (None, 3, True, None)
    assert "payload" not in page["items"][0]
    assert [job["id"] for job in found(f'state:failed error:"NO {name.upper()}"')["items"]] == [dead]
    assert [job["id"] for job in found(dead)["items"]] == [dead]
    part = found(f"session:{name}", limit=1)
    rest = found(f"session:{name}", limit=1, cursor=part["next"])
    assert [job["id"] for job in part["items"] + rest["items"]] == [second, first]
    refused(viewer.get("/api/admin/jobs", params={"cursor": first}), 422, "INVALID_ARGUMENT")
    counted = viewer.get("/api/admin/jobs/count", params={"search": f"account:{name}"}).json()
    assert counted == {"count": 3, "is_exact": True, "credits": 0}
    problem = refused(viewer.get("/api/admin/jobs", params={"search": "tool:a state:faild"}), 422, "INVALID_ARGUMENT")
    assert '"state:faild" at 8' in problem["detail"]
    assert problem["position"] == 8


def test_a_jobs_page_has_all_that_belongs_to_it_and_masks_secrets(
    server: Served, viewer: httpx.Client, name: str
) -> None:
    with server.client(server.account(name)) as user:
        job = failed(server, user, "broken")
        assert user.get(f"/api/jobs/{job}").json()["payload"] == {"password": "hunter2"}
        refused(user.get(f"/api/admin/jobs/{job}"), 403, "FORBIDDEN")
    page = viewer.get(f"/api/admin/jobs/{job}").json()
    assert page["job"]["payload"] == {"password": "[hidden]"}
    assert [event["kind"] for event in page["events"]][:2] == ["submitted", "claimed"]
    assert [(one["number"], one["how"], one["error"]) for one in page["attempts"]] == [(1, "failed", "broken")]
    assert page["acts"] == ["requeue", "discard"]
    assert job in [run["job_id"] for run in page["recent_runs"]]
    assert page.keys() >= {"steps", "entries", "files", "traceback", "trace_url", "more_events", "live_workers"}
    refused(viewer.get(f"/api/admin/jobs/{uuid4()}"), 404, "NOT_FOUND")


def test_dead_letters_batches_accounts_audit_and_words_are_found(
    server: Served, viewer: httpx.Client, name: str
) -> None:
    with server.client(server.account(name)) as user:
        failed(server, user, f"{name} 1 broke")
        newest = failed(server, user, f"{name} 2 broke")
        items = [{"tool": "anything", "payload": {"n": n}} for n in range(2)]
        batch = user.post("/api/batches", json={"items": items}).json()["batch_id"]
        mine = user.get("/api/batches").json()
        assert [(one["id"], one["total"]) for one in mine["items"]] == [(batch, 2)]
        refused(user.get("/api/batches", params={"account": "somebody"}), 403, "FORBIDDEN")
    groups = viewer.get("/api/admin/dead/groups").json()
    [group] = [one for one in groups["items"] if one["job_id"] == newest]
    assert (group["count"], group["error"].endswith("… broke")) == (2, True)
    assert viewer.get("/api/batches", params={"account": name}).json() == mine
    assert batch in [one["id"] for one in viewer.get("/api/batches").json()["items"]]
    found = viewer.get("/api/admin/accounts", params={"search": name[:-1]}).json()["items"]
    assert [account["id"] for account in found] == [name]
    lines = viewer.get("/api/admin/audit", params={"target": f"account {name}"}).json()["items"]
    assert {line["target"] for line in lines} <= {f"account {name}"}
    assert viewer.get("/api/admin/audit", params={"target": name, "actor": "nobody"}).json()["items"] == []
    words = viewer.get("/api/admin/search-words").json()
    assert "anything" in words["tools"]
    assert words["states"][0] == "queued"


def test_what_is_polled_has_an_etag_and_is_not_sent_twice(server: Served, viewer: httpx.Client, name: str) -> None:
    with server.client(server.account(name)) as user:
        job = submitted(user)
        other = submitted(user)
        paths = [
            f"/api/admin/jobs?search=account:{name}",
            f"/api/admin/jobs/count?search=account:{name}",
            f"/api/admin/jobs/{job}",
            "/api/admin/search-words",
            f"/api/admin/accounts?search={name}",
            f"/api/admin/audit?target=account%20{name}",
            f"/api/batches?account={name}",
        ]
        seen = {path: viewer.get(path) for path in paths}
        for path, answer in seen.items():
            assert answer.status_code == 200, path
            again = viewer.get(path, headers={"If-None-Match": answer.headers["etag"]})
            assert (again.status_code, again.content) == (304, b""), path
        user.post(f"/api/jobs/{job}/cancel").raise_for_status()
        user.post(f"/api/jobs/{other}/cancel").raise_for_status()
    for path in (paths[0], paths[2]):
        changed = viewer.get(path, headers={"If-None-Match": seen[path].headers["etag"]})
        assert changed.status_code == 200, path
