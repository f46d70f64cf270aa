"""What operators ask and do over HTTP; and that each of their acts is in the audit log."""

from collections.abc import Iterator

import httpx
import pytest

from ficha.client import Client
from tests.server.test_bad_input import refused
from tests.support.server_process import Served
from tests.support.waiting import until_sync

pytestmark = pytest.mark.long_on("postgresql")


@pytest.fixture
def admin(server: Served) -> Iterator[httpx.Client]:
    with server.client(server.admin) as client:
        yield client


@pytest.mark.req("E5")
def test_health_figures_and_recovery(server: Served, admin: httpx.Client, name: str) -> None:
    with server.client(server.account(name)) as user:
        batch = user.post(
            "/api/batches", json={"items": [{"tool": "embed", "payload": {"text": f"{name}{n}"}} for n in range(2)]}
        ).json()
    assert admin.get("/api/system/health").json()["status"] == "ok"
    stats = admin.get("/api/system/processing-stats").json()
    assert stats["total"] == sum(stats["by_status"].values()) >= 2
    assert stats.keys() >= {"stuck", "by_checkpoint", "avg_run_s", "dead"}
    assert admin.get("/api/system/stuck").json()["items"] == []
    swept = admin.post("/api/system/recover-stuck").json()
    assert swept.keys() == {"jobs", "reservations", "keys", "files", "sessions"}
    assert admin.post("/api/system/cleanup-old").status_code == 200
    nothing = admin.post(f"/api/system/recover/{batch['job_id']}").json()
    assert (nothing["act"], nothing["refunded"]) == ("nothing", 0)
    found = admin.get(f"/api/system/batch-status/{batch['batch_id']}").json()
    assert (found["total"], found["account"]) == (2, name)
    assert admin.post(f"/api/system/resume-batch/{batch['batch_id']}").json()["resumed"] == 0
    refused(admin.post("/api/system/recover/0198f1a2-7c3e-7d4b-9a51-3f6c2e8b7a10"), 404, "NOT_FOUND")


def test_the_depth_of_a_queue_is_for_operators_machines(server: Served, admin: httpx.Client, name: str) -> None:
    with Client(str(admin.base_url), server.admin) as client:
        told = client.queue_depth("gpu", concurrency=20, count_up_to=10)
    found = admin.get("/api/admin/queue-depth", params={"pool": "gpu", "concurrency": 20, "count_up_to": 10}).json()
    assert found.keys() == {"pool", "ready", "running", "busy", "slots", "paused", "wanted_workers"}
    assert (found["pool"], told.pool, found["slots"], told.slots) == ("gpu", "gpu", 3, 3)
    refused(admin.get("/api/admin/queue-depth", params={"pool": "none"}), 404, "NOT_FOUND")
    every = admin.get("/api/admin/queue-depth?concurrency=20").json()
    assert {"gpu", "cpu"} <= set(every["pool"].split(","))
    both = admin.get("/api/admin/queue-depth?pool=gpu&pool=cpu").json()
    assert (both["pool"], both["slots"]) == ("gpu,cpu", None)
    with Client(str(admin.base_url), server.admin) as client:
        assert client.queue_depth("gpu", "cpu").pool == "gpu,cpu"
        assert client.queue_depth().pool == every["pool"]
    for bad in (
        {"pool": ""},
        {"pool": ["a"] * 91},
        {"pool": "gpu", "count_up_to": 100_001},
        {"pool": "gpu", "concurrency": 0},
    ):
        refused(admin.get("/api/admin/queue-depth", params=bad), 422, "INVALID_ARGUMENT")
    with server.client(server.account(name)) as user, server.client(server.service) as service:
        for other in (user, service):
            refused(other.get("/api/admin/queue-depth", params={"pool": "gpu"}), 403, "FORBIDDEN")


def test_a_users_resume_is_bound_by_the_plan_and_an_operators_is_not(server: Served, name: str) -> None:
    with server.client(server.account(name, plan="single")) as user, server.client(server.service) as service:
        asked = {"items": [{"tool": "anything", "payload": {"of": name}}]}
        batch = user.post("/api/batches", json=asked).json()
        lease = server.take(batch["job_id"])
        service.post("/api/worker/finish", json={**lease, "outcome": "failed", "error": "no"}).raise_for_status()
        active = user.post("/api/jobs", json={"tool": "anything"}).json()["job_id"]

        told = user.post(f"/api/batches/{batch['batch_id']}/resume").json()
        assert (told["resumed"], told["refused"]) == (0, 1)
        assert (told["refusal"]["code"], told["refusal"]["details"]["job_id"]) == ("ACTIVE_JOB_EXISTS", active)
        assert user.get("/api/account").json()["active"] == 1

        told = service.post(f"/api/batches/{batch['batch_id']}/resume").json()
        assert (told["resumed"], told["refused"], told["refusal"]) == (1, 0, None)
        assert user.get("/api/account").json()["active"] == 2


def test_an_admin_refunds_a_job_that_ended_once(server: Served, admin: httpx.Client, name: str) -> None:
    with server.client(server.account(name)) as user, server.client(server.service) as service:
        job_id = user.post("/api/jobs", json={"tool": "embed", "payload": {"text": name}}).json()["job_id"]
        path = f"/api/admin/jobs/{job_id}/refund"
        refused(admin.post(path, json={"reason": "early"}), 409, "INVALID_STATE")
        lease = server.take(job_id)
        service.post("/api/worker/finish", json={**lease, "outcome": "completed", "result": 1}).raise_for_status()
        for bad in ({}, {"reason": ""}, {"reason": " "}):
            assert admin.post(path, json=bad).status_code == 422
        refused(user.post(path, json={"reason": "mine"}), 403, "FORBIDDEN")
        refused(service.post(path, json={"reason": "mine"}), 403, "FORBIDDEN")
        told = admin.post(path, json={"reason": "it was black"}).json()
        assert (told["changed"], told["refunded"], told["new_balance"]) == (True, 2, 100)
        assert admin.post(path, json={"reason": "it was black"}).json()["changed"] is False
        assert user.get("/api/account/ledger").json()["items"][0]["reason"] == "it was black"
        user.headers["Accept"] = "application/json"
        told = user.get(f"/api/jobs/{job_id}/events").json()["items"][-1]
        assert (told["kind"], told["data"]) == ("refunded", {"refunded": 2})
    with Client(server.url, server.admin) as client:
        assert client.refund(job_id, reason="again").changed is False


def test_every_admin_act_is_in_the_audit_log_with_who_did_it(server: Served, admin: httpx.Client, name: str) -> None:
    key = admin.post("/api/admin/api-keys", json={"name": f"admin {name}", "scope": "admin"}).json()
    with server.client(key["secret"]) as actor:
        actor.post("/api/admin/accounts", json={"account": name, "plan": "open", "credits": 10}).raise_for_status()
        actor.post(f"/api/admin/accounts/{name}/grant", json={"amount": 5, "reason": "paid"}).raise_for_status()
        actor.post(f"/api/admin/accounts/{name}/adjust", json={"amount": -1, "reason": "oops"}).raise_for_status()
        actor.post(f"/api/admin/accounts/{name}/plan", json={"plan": "pro"}).raise_for_status()
        made = actor.post("/api/admin/api-keys", json={"name": name, "account": name}).json()
        actor.post(f"/api/admin/api-keys/{made['key']['id']}/revoke").raise_for_status()
        for act in ("pause", "resume"):
            actor.post(f"/api/admin/pools/cpu/{act}").raise_for_status()
        actor.post("/api/admin/pools/cpu/resize", json={"slots": None}).raise_for_status()
        with server.client(server.service) as service:
            job = service.post("/api/jobs", json={"tool": "embed", "payload": {"text": name}, "account": name}).json()[
                "job_id"
            ]
            lease = server.take(job)
            service.post("/api/worker/finish", json={**lease, "outcome": "failed", "error": "no"}).raise_for_status()
        requeued = actor.post(f"/api/admin/dead/{job}/requeue").json()["job_id"]
        actor.post(f"/api/jobs/{requeued}/cancel", json={"reason": "enough"}).raise_for_status()
        # What is refused changes nothing, and is no act.
        refused(actor.post("/api/admin/accounts", json={"account": name}), 409, "INVALID_STATE")
        lines = actor.get("/api/admin/audit", params={"limit": 1000}).json()["items"]

    mine = [line for line in reversed(lines) if line["actor"] == f"key {key['key']['hint']}"]
    assert [line["act"] for line in mine] == [
        *("open_account", "grant", "adjust", "change_plan", "create_api_key", "revoke_api_key"),
        *("pause_pool", "resume_pool", "resize_pool", "requeue", "cancel"),
    ]
    assert mine[1]["target"] == f"account {name}"
    assert mine[1]["details"]["amount"] == 5
    assert made["secret"] not in str(lines)


@pytest.mark.req("C1", "C2")
def test_keys_reservations_and_schedules_are_bounded_for_every_caller(server: Served, name: str) -> None:
    item = {"tool": "upscale", "payload": {"image": "x"}}
    job = item | {"account": name}
    with server.client(server.account(name)) as user, server.client(server.service) as service:
        for caller in (user, service):
            key = {"idempotency_key": f"month-{caller is user}", "key_ttl_hours": 720}
            assert caller.post("/api/jobs", json=job | key).status_code == 201
            assert caller.post("/api/reservations", json={"ttl_s": 86_400, "account": name}).status_code == 201
            for path, body in (
                ("/api/jobs", job | {"idempotency_key": "other", "key_ttl_hours": 720.001}),
                ("/api/jobs", job | {"delay_s": 365 * 86_400 + 1}),
                ("/api/batches", {"items": [item], "account": name, "run_at": "2999-01-01T00:00:00Z"}),
                ("/api/reservations", {"ttl_s": 86_400.001, "account": name}),
            ):
                refused(caller.post(path, json=body), 422, "INVALID_ARGUMENT")


@pytest.mark.req("C7")
def test_keys_and_reservations_can_be_inspected(server: Served, admin: httpx.Client, name: str) -> None:
    with server.client(server.account(name)) as user:
        job = user.post(
            "/api/jobs", json={"tool": "upscale", "payload": {"image": "x"}, "idempotency_key": "order-1"}
        ).json()["job_id"]
        hold = user.post("/api/reservations", json={}).json()["id"]

    keys = admin.get("/api/admin/idempotency-keys", params={"account": name}).json()["items"]
    assert [(key["key"], key["job_id"]) for key in keys] == [("order-1", job)]
    holds = admin.get("/api/admin/reservations", params={"account": name}).json()["items"]
    assert [(one["id"], one["state"]) for one in holds] == [(hold, "active")]


def test_lists_go_on_after_their_cursor_to_the_end(server: Served, admin: httpx.Client, name: str) -> None:
    for number in range(3):
        server.account(f"{name}-{number}")
    for path in ("accounts", "api-keys", "audit", "idempotency-keys", "workers", "dead", "reservations"):
        whole = admin.get(f"/api/admin/{path}", params={"limit": 1000}).json()["items"][:20]
        found: list[object] = []
        cursor = None
        while len(found) < len(whole):
            page = admin.get(f"/api/admin/{path}", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
            found += page["items"]
            cursor = page["next"]
            if cursor is None:
                break
        assert [_name(one) for one in found[: len(whole)]] == [_name(one) for one in whole], path


def _name(item: object) -> object:
    assert isinstance(item, dict)
    return item.get("id") or item.get("number") or item.get("name") or (item["account"], item["key"])


def test_two_keys_of_one_name_live_side_by_side_and_a_third_is_refused(
    server: Served, admin: httpx.Client, name: str
) -> None:
    server.account(name)
    asked = {"name": f"rotating {name}", "scope": "user", "account": name}
    first, second = (admin.post("/api/admin/api-keys", json=asked).json() for _ in range(2))
    refused(admin.post("/api/admin/api-keys", json=asked), 409, "INVALID_STATE")
    for made in (first, second):
        with server.client(made["secret"]) as user:
            assert user.get("/api/account").json()["id"] == name

    admin.post(f"/api/admin/api-keys/{first['key']['id']}/revoke").raise_for_status()

    with server.client(first["secret"]) as user:
        refused(user.get("/api/account"), 401, "UNAUTHENTICATED")
    with server.client(second["secret"]) as user:
        assert user.get("/api/account").status_code == 200
    assert admin.post("/api/admin/api-keys", json=asked).status_code == 201


def test_probes_are_open_and_figures_are_not(server: Served) -> None:
    with server.client(None) as anybody, server.client(server.service) as service:
        assert anybody.get("/healthz").json() == {"status": "ok"}
        assert anybody.get("/readyz").json() == {"status": "ok"}
        assert anybody.get("/api/openapi.json").json()["openapi"].startswith("3.")
        refused(anybody.get("/metrics"), 401, "UNAUTHENTICATED")
        figures = service.get("/metrics")
        assert figures.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'ficha_pool_slots{pool="gpu"} 3.0' in figures.text
        assert "ficha_dead_letters" in figures.text


def test_the_overview_tells_what_happened_to_whoever_may_see_it(server: Served, admin: httpx.Client, name: str) -> None:
    with server.client(server.account(name)) as user:
        user.post("/api/jobs", json={"tool": "anything"}).raise_for_status()
        refused(user.get("/api/admin/overview"), 403, "FORBIDDEN")

    def submitted() -> int:
        return sum(sum(line["values"]) for line in admin.get("/api/admin/overview?range=7d").json()["submitted"])

    until_sync(lambda: submitted() >= 1)
    found = admin.get("/api/admin/overview", params={"range": "1h"}).json()
    assert (found["range"], found["step_s"], len(found["times"])) == ("1h", 60, 60)
    assert len(found["wait_p50"]) == len(found["charged"]) == 60
    assert found["workers"].keys() == {"alive", "silent", "names_silent"}
    assert all(alert.keys() == {"code", "severity", "text", "link"} for alert in found["alerts"])
    refused(admin.get("/api/admin/overview", params={"range": "2h"}), 422, "INVALID_ARGUMENT")
