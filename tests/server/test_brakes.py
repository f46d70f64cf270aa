"""Brakes over HTTP: one process stops a tool, and servers and workers everywhere obey at once."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from ficha.client import Client
from tests.server.test_bad_input import refused
from tests.support.server_process import Served


@pytest.fixture
def admin(server: Served) -> Iterator[httpx.Client]:
    with server.client(server.admin) as client:
        yield client
        for tool in ("anything", "paint"):
            client.post(f"/api/admin/tools/{tool}/open").raise_for_status()
            client.post(f"/api/admin/tools/{tool}/resume").raise_for_status()
        client.post("/api/admin/pools/cpu/open").raise_for_status()


def test_a_closed_tool_and_a_closed_pool_refuse_users_with_the_operators_sentence(
    server: Served, admin: httpx.Client, name: str
) -> None:
    job = {"tool": "paint", "payload": {"prompt": "a cat"}}
    with server.client(server.account(name)) as user, server.client(server.service) as service:
        first = user.post("/api/jobs", json=job | {"idempotency_key": "k"}).json()["job_id"]
        closed = admin.post("/api/admin/tools/paint/close", json={"reason": "No paint until noon."}).json()
        assert (closed["kind"], closed["name"], closed["closed"]) == ("tool", "paint", "No paint until noon.")
        before = user.get("/api/account").json()["balance"]
        problem = refused(user.post("/api/jobs", json=job), 409, "TOOL_CLOSED")
        assert "No paint until noon." in problem["detail"]
        assert problem["retryable"] is False
        refused(service.post("/api/jobs", json=job | {"account": name}), 409, "TOOL_CLOSED")
        assert user.post("/api/jobs", json=job | {"idempotency_key": "k"}).json()["job_id"] == first
        quote = user.post("/api/quote", json=job).json()
        assert (quote["admitted"], quote["refusal"]["code"]) == (False, "TOOL_CLOSED")
        assert user.get("/api/account").json()["balance"] == before
        [told] = [tool for tool in user.get("/api/tools").json()["items"] if tool["name"] == "paint"]
        assert (told["closed"], told["paused"]) == ("No paint until noon.", False)
        admin.post("/api/admin/tools/paint/open").raise_for_status()
        admin.post("/api/admin/pools/cpu/close", json={"reason": "Moving."}).raise_for_status()
        refused(user.post("/api/jobs", json=job), 409, "TOOL_CLOSED")
        admin.post("/api/admin/pools/cpu/open").raise_for_status()
        assert user.post("/api/jobs", json=job).status_code == 201


def test_workers_over_http_get_nothing_of_a_paused_tool(server: Served, admin: httpx.Client, name: str) -> None:
    with server.client(server.account(name)) as user:
        held = user.post("/api/jobs", json={"tool": "anything"}).json()["job_id"]
        told = admin.post("/api/admin/tools/anything/pause").json()
        assert told["paused"] is True
        assert user.get(f"/api/jobs/{held}").json()["waiting_for"] == "tool_paused"
        later = user.post("/api/jobs", json={"tool": "anything"}).json()["job_id"]
        assert user.get(f"/api/jobs/{later}").json()["waiting_for"] == "tool_paused"
        other = user.post("/api/jobs", json={"tool": "paint", "payload": {"prompt": "x"}}).json()["job_id"]
        server.take(other)
        assert {brake["name"] for brake in admin.get("/api/admin/brakes").json()["items"]} == {"anything"}
        [pool] = [pool for pool in admin.get("/api/admin/pools").json()["items"] if pool["name"] == "cpu"]
        assert pool["paused_tools"] == ["anything"]
        admin.post("/api/admin/tools/anything/resume").raise_for_status()
        server.take(held)
        server.take(later)


def test_who_may_brake_and_what_is_wrong_is_told(server: Served, admin: httpx.Client, name: str) -> None:
    refused(admin.post("/api/admin/tools/nothing/pause"), 404, "UNKNOWN_TOOL")
    refused(admin.post("/api/admin/pools/nothing/close", json={"reason": "x"}), 404, "NOT_FOUND")
    for bad in ({}, {"reason": ""}, {"reason": " "}):
        assert admin.post("/api/admin/tools/paint/close", json=bad).status_code == 422
    with server.client(server.account(name)) as user, server.client(server.service) as service:
        for other in (user, service):
            refused(other.post("/api/admin/tools/paint/pause"), 403, "FORBIDDEN")
            refused(other.get("/api/admin/brakes"), 403, "FORBIDDEN")


def test_the_client_has_each_act(server: Served, admin: httpx.Client) -> None:
    with Client(server.url, server.admin) as client:
        assert client.pause_tool("paint").paused
        assert client.close_tool("paint", reason="Why.").closed == "Why."
        assert [brake.name for brake in client.brakes()] == ["paint"]
        assert not client.resume_tool("paint").paused
        assert client.open_tool("paint").closed is None
        assert client.close_pool("cpu", reason="Why.").closed == "Why."
        assert client.open_pool("cpu").closed is None
        assert client.brakes() == []
