"""Sessions of pages over HTTP: a page says that it is open or was left, for its own account alone."""

import asyncio
from datetime import UTC, datetime

import pytest

from ficha.client import AsyncClient, Client
from tests.server.test_bad_input import refused
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")


def state_of(server: Served, key: str, session: str) -> str:
    """How a session stands, without saying that it is open: leaving again changes nothing where it was left."""
    with server.client(key) as user:
        return user.post(f"/api/sessions/{session}/leave").json()["ends_at"]


@pytest.mark.req("A14")
def test_a_page_says_that_it_is_open_or_was_left(server: Served, name: str) -> None:
    key = server.account(name)
    with server.client(key) as user:
        opened = user.post("/api/sessions/tab%2F1/stay")
        assert opened.status_code == 200
        assert {**opened.json(), "ends_at": ""} == {"account": name, "session": "tab/1", "state": "open", "ends_at": ""}
        ends_s = (datetime.fromisoformat(opened.json()["ends_at"]) - datetime.now(UTC)).total_seconds()
        assert 500 < ends_s < 700
        left = user.post("/api/sessions/tab%2F1/leave").json()
        assert left["state"] == "left"
        assert left["ends_at"] < opened.json()["ends_at"]
        refused(user.post("/api/sessions/s1/stay", params={"account": "other"}), 403, "FORBIDDEN")
        refused(user.post(f"/api/sessions/{'x' * 256}/stay"), 422, "INVALID_ARGUMENT")
    with server.client(server.service) as service:
        refused(service.post("/api/sessions/s1/stay"), 422, "INVALID_ARGUMENT")
        refused(service.post("/api/sessions/s1/stay", params={"account": f"{name}-nobody"}), 404, "NOT_FOUND")
        assert service.post("/api/sessions/s1/stay", params={"account": name}).json()["account"] == name
    with server.client(None) as nobody:
        refused(nobody.post("/api/sessions/s1/stay"), 401, "UNAUTHENTICATED")


@pytest.mark.req("A14")
@pytest.mark.parametrize("path", ["", "/events"])
def test_following_a_job_of_the_session_revokes_that_the_page_was_left(server: Served, name: str, path: str) -> None:
    key = server.account(name)
    with server.client(key) as user:
        user.headers["Accept"] = "application/json"
        asked = {"tool": "embed", "payload": {"text": "one"}, "session": "s1"}
        job_id = user.post("/api/jobs", json=asked).json()["job_id"]
        first = state_of(server, key, "s1")
        for params in ({}, {"session": "s2"}):
            assert user.get(f"/api/jobs/{job_id}{path}", params=params).status_code == 200
            assert state_of(server, key, "s1") == first
        with server.client(server.viewer) as viewer:
            looked = viewer.get(
                f"/api/jobs/{job_id}{path}", params={"session": "s1"}, headers={"Accept": "application/json"}
            )
            assert looked.status_code == 200
            assert state_of(server, key, "s1") == first, "who only looks is no page of the account"
        assert user.get(f"/api/jobs/{job_id}{path}", params={"session": "s1"}).status_code == 200
        assert state_of(server, key, "s1") > first
        user.post(f"/api/jobs/{job_id}/cancel")


@pytest.mark.req("A14")
def test_the_clients_say_it_too(server: Served, name: str) -> None:
    key = server.account(name)
    with Client(server.url, key) as client:
        assert client.stay_in_session("a/b").state == "open"
        assert client.leave_session("a/b").session == "a/b"

    async def work() -> None:
        async with AsyncClient(server.url, server.service) as client:
            assert (await client.leave_session("s2", account=name)).account == name

    asyncio.run(work())
