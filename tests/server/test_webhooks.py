"""Webhook endpoints over HTTP: each account's own, the operator's own, and nothing of anybody else's."""

from __future__ import annotations

import json

import pytest

from ficha import NotFound
from ficha.client import Client
from tests.server.test_bad_input import refused
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")

RECEIVER = "http://127.0.0.1:9/hook"
ENDPOINTS, DELIVERIES = "/api/webhook-endpoints", "/api/webhook-deliveries"


def test_a_user_has_endpoints_and_no_operators_act_is_theirs(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user, server.client(server.admin) as admin:
        added = user.post(ENDPOINTS, json={"url": RECEIVER, "events": ["job.failed"], "description": "mine"})
        assert added.status_code == 201
        webhook = added.json()["webhook"]
        assert (webhook["account"], webhook["events"], webhook["description"]) == (name, ["job.failed"], "mine")
        assert added.json()["secret"].startswith("whsec_")
        listed = user.get(ENDPOINTS)
        assert "whsec_" not in listed.text
        assert listed.json()["items"] == [webhook]
        path = f"{ENDPOINTS}/{webhook['id']}"
        assert user.post(f"{path}/rotate").json()["secret"] != added.json()["secret"]
        assert user.post(f"{path}/rotate", json={"overlap_s": 0}).status_code == 200
        sent = user.post(f"{path}/test")
        assert (sent.status_code, sent.json()["event"], sent.json()["state"]) == (202, "webhook.test", "pending")
        refused(user.post(f"{path}/test"), 429, "RATE_LIMITED")
        page = user.get(DELIVERIES, params={"webhook": webhook["id"], "state": "pending"}).json()
        assert [delivery["id"] for delivery in page["items"]] == [sent.json()["id"]]
        assert user.post(f"{DELIVERIES}/{sent.json()['id']}/resend").status_code == 202
        assert user.post(f"{path}/enable").json()["disabled_at"] is None
        refused(user.get(ENDPOINTS, params={"account": "another"}), 403, "FORBIDDEN")
        # Whoever operates may do the same for the account, and leaves a line.
        assert admin.get(ENDPOINTS, params={"account": name}).json()["items"] == [webhook]
        refused(admin.post(f"{path}/enable"), 404, "NOT_FOUND")
        assert admin.post(f"{path}/remove", params={"account": name}).json()["id"] == webhook["id"]
        assert user.get(ENDPOINTS).json()["items"] == []
        lines = [line for line in admin.get("/api/admin/audit").json()["items"] if webhook["id"] in line["target"]]
        assert [line["act"] for line in lines] == ["remove_webhook"]
        assert "hook" not in json.dumps(lines[0]["details"])


@pytest.mark.parametrize(
    "url", ["https://10.0.0.1/", "https://[::1]/", "http://169.254.169.254/", "ftp://127.0.0.1/", "", "x" * 3_000]
)
def test_an_address_inside_is_refused_with_words(server: Served, name: str, url: str) -> None:
    with server.client(server.account(name)) as user:
        problem = refused(user.post(ENDPOINTS, json={"url": url}), 422, "INVALID_ARGUMENT")
        assert "10.0.0.1 leads to" in problem["detail"] or "10.0.0.1" not in url
        assert user.get(ENDPOINTS).json()["items"] == []


def test_what_is_wrong_is_refused(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:
        refused(user.post(ENDPOINTS, json={"url": RECEIVER, "events": ["job.done"]}), 422, "INVALID_ARGUMENT")
        refused(user.get(DELIVERIES, params={"state": "lost"}), 422, "INVALID_ARGUMENT")
        for _ in range(10):
            assert user.post(ENDPOINTS, json={"url": RECEIVER}).status_code == 201
        refused(user.post(ENDPOINTS, json={"url": RECEIVER}), 429, "QUOTA_EXCEEDED")


def test_the_client_does_all_of_it(server: Served, name: str) -> None:
    server.account(name)
    with Client(server.url, server.service) as service:
        added = service.add_webhook(RECEIVER, account=name, events=["job.completed"])
        webhook_id = added.webhook.id
        assert [webhook.id for webhook in service.webhooks(account=name)] == [webhook_id]
        assert service.rotate_webhook_secret(webhook_id, account=name, overlap_s=1).secret != added.secret
        assert service.enable_webhook(webhook_id, account=name).id == webhook_id
        sent = service.test_webhook(webhook_id, account=name)
        assert service.deliveries(account=name, webhook_id=webhook_id, state="pending").items == [sent]
        assert service.resend_delivery(sent.id, account=name).id == sent.id
        with pytest.raises(NotFound):
            service.remove_webhook(webhook_id)
        assert service.remove_webhook(webhook_id, account=name).id == webhook_id
        own = service.add_webhook(RECEIVER)
        assert own.webhook.account is None
        assert own.webhook in service.webhooks()
        service.remove_webhook(own.webhook.id)


def test_messages_that_wait_are_in_the_figures(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user, server.client(server.admin) as admin:
        added = user.post(ENDPOINTS, json={"url": RECEIVER}).json()["webhook"]["id"]
        user.post(f"{ENDPOINTS}/{added}/test").raise_for_status()
        [line] = [line for line in admin.get("/metrics").text.splitlines() if line.startswith("ficha_webhooks_pending")]
        assert float(line.split()[1]) >= 1
