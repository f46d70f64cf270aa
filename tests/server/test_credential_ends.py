"""A credential that ends while its caller stays: live streams, waits and claims end with it, on a real server."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from ficha import Ficha, Refused
from ficha.client import Client
from tests.server.test_bad_input import refused
from tests.server.test_following import messages
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")

EMBED = {"tool": "embed", "payload": {"text": "x"}}


def revoke(server: Served, secret: str) -> None:
    """Revokes a key in another process, of which the server only learns from the database."""

    async def within() -> None:
        async with Ficha(server.database, sweep_by_itself=False) as app:
            key = await app.api_key(secret)
            assert key is not None
            await app.revoke_api_key(key.id)

    asyncio.run(within())


@pytest.mark.parametrize("shown", ["key", "job token"])
def test_a_stream_ends_after_its_key_was_revoked_and_says_why(server: Served, name: str, shown: str) -> None:
    key = server.account(name)
    with server.client(key) as user:
        job = user.post("/api/jobs", json=EMBED).json()["job_id"]
        token = user.post(f"/api/jobs/{job}/token").json()["token"]
    with server.client(key if shown == "key" else token) as user:
        with user.stream("GET", f"/api/jobs/{job}/events") as stream:
            following = messages(stream.iter_lines())
            while next(following)[1] != "job":
                pass
            revoke(server, key)
            *_, (_, kind, data) = following
        assert kind == "refused"
        assert isinstance(data, dict)
        assert (data["code"], data["retryable"]) == ("UNAUTHENTICATED", False)
        assert "revoked" in data["detail"]
        refused(user.get(f"/api/jobs/{job}"), 401, "UNAUTHENTICATED")


def test_the_client_is_told_of_the_credential_and_does_not_connect_again(server: Served, name: str) -> None:
    key = server.account(name)
    with Client(server.url, key) as me:
        watching = me.watch(me.submit("embed", {"text": "x"}).job_id)
        next(watching)
        revoke(server, key)
        with pytest.raises(Refused, match="revoked") as caught:
            list(watching)
    assert caught.value.code == "UNAUTHENTICATED"


def test_a_wait_ends_after_its_key_was_revoked_and_tells_no_more_of_the_job(server: Served, name: str) -> None:
    key = server.account(name)
    with (
        server.client(key) as user,
        server.client(server.service) as service,
        ThreadPoolExecutor(1) as beside,
    ):
        waiting = beside.submit(user.post, "/api/jobs", json=EMBED, headers={"Prefer": "wait=25"})
        while not service.get("/api/jobs/active", params={"account": name}).json()["active"]:
            pass
        revoke(server, key)
        answer = waiting.result()
    assert answer.status_code == 201
    assert (answer.json()["status"], answer.json()["job"]) == ("queued", None)


def test_a_claim_that_waits_ends_after_its_key_was_revoked_and_takes_nothing(server: Served, name: str) -> None:
    with server.client(server.admin) as admin:
        made = admin.post("/api/admin/api-keys", json={"name": name, "scope": "service"}).json()["secret"]
    with server.client(made) as worker, ThreadPoolExecutor(1) as beside:
        worker.get("/api/queue/check").raise_for_status()
        asked = {"worker": name, "pools": ["default"], "wait_s": 25}
        waiting = beside.submit(worker.post, "/api/worker/claim", json=asked)
        revoke(server, made)
        refused(waiting.result(), 401, "UNAUTHENTICATED")
