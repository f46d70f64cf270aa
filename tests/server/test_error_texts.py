"""Internal errors: an operator reads them over HTTP, the job's owner does not, by whatever route they look."""

from __future__ import annotations

import json
import re
from uuid import uuid4

import httpx
import pytest

from tests.server.isolation import GUARDED, STREAMS
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")

SUBMIT = {"tool": "stubborn"}


def failed_job(server: Served, user: httpx.Client, error: str, **more: object) -> str:
    """A job that was retried, handed back and then failed, each time with this text."""
    job: str = user.post("/api/jobs", json=SUBMIT).json()["job_id"]
    with server.client(server.service) as service:
        for outcome in (
            {"outcome": "returned", "reason": error},
            {"outcome": "retry", "after_s": 0, "reason": error},
            {"outcome": "failed", "error": error, "final": True, **more},
        ):
            ended = service.post("/api/worker/finish", json={**server.take(job), **outcome})
            assert ended.status_code == 200, ended.text
        late = {"job_id": job, "epoch": 3, "outcome": "failed", "error": error}
        assert service.post("/api/worker/finish", json=late).json()["changed"] is False
    return job


def test_no_route_shows_the_owner_an_internal_error(server: Served, name: str) -> None:
    canary = f"db1.internal/{uuid4().hex}"
    with server.client(server.account(name)) as user:
        job = failed_job(server, user, canary)
        token = user.post(f"/api/jobs/{job}/token").json()["token"]
        texts = []
        with server.client(token) as browser:
            for operation in GUARDED:
                if operation.method != "GET":
                    continue
                path = re.sub(r"\{job_id\}", job, operation.path)
                kinds = ("application/json", "text/event-stream") if operation.path in STREAMS else ("*/*",)
                for kind in kinds:
                    if (operation.path, kind) == ("/api/account/events", "text/event-stream"):
                        continue  # It has no end; the test below reads it.
                    for caller in (user, browser):
                        texts.append(caller.get(path, headers={"Accept": kind}).text)
        shown = user.get(f"/api/jobs/{job}").json()

        assert canary not in "".join(texts)
        assert job in "".join(texts)
        assert shown["error"] == shown["user_error"] == f"The job failed for an internal reason; its id is {job}."
        assert [event["kind"] for event in events(user, job)][-2:] == ["failed", "late"]


def test_the_stream_of_an_account_shows_no_internal_error_either(server: Served, name: str) -> None:
    canary = f"db1.internal/{uuid4().hex}"
    key = server.account(name)
    with server.client(key) as user, server.client(server.service) as service:
        first = user.post("/api/jobs", json=SUBMIT).json()["job_id"]
        texts = {}
        for caller, parameters in ((user, {}), (service, {"account": name})):
            asked = caller.stream("GET", "/api/account/events", params=parameters, headers={"Last-Event-ID": "0"})
            with asked as stream:
                if caller is user:
                    failed_job(server, user, canary)
                texts[caller] = ""
                for line in stream.iter_lines():
                    texts[caller] += line
                    if '"kind":"late"' in line:
                        break

        assert first
        assert canary not in texts[user]
        assert canary in texts[service]


@pytest.mark.parametrize("scope", ["service", "admin"])
def test_operators_read_it_in_full(server: Served, name: str, scope: str) -> None:
    canary = f"db1.internal/{uuid4().hex}"
    with server.client(server.account(name)) as user, server.client(getattr(server, scope)) as operator:
        job = failed_job(server, user, canary)
        assert operator.get(f"/api/jobs/{job}").json()["error"] == canary
        assert [json.dumps(event).count(canary) for event in events(operator, job)[-2:]] == [1, 1]
        assert canary in operator.get(f"/api/jobs/{job}/events", headers={"Accept": "text/event-stream"}).text


def test_the_owner_reads_what_was_written_for_them(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:
        job = failed_job(server, user, "your image is too small", for_user=True)
        assert user.get(f"/api/jobs/{job}").json()["error"] == "your image is too small"
        assert events(user, job)[-2]["data"]["error"] == "your image is too small"
        other: str = user.post("/api/jobs", json=SUBMIT).json()["job_id"]
        lease = server.take(other)
        with server.client(server.service) as service:
            said = {"job_id": other, "status": "failed", "error": "too dark", "for_user": True, "epoch": lease["epoch"]}
            assert service.post("/api/queue/finish", json=said).status_code == 200
        assert user.get(f"/api/jobs/{other}").json()["user_error"] == "too dark"


def events(caller: httpx.Client, job: str) -> list[dict]:
    answer = caller.get(f"/api/jobs/{job}/events", headers={"Accept": "application/json"})
    found: list[dict] = answer.json()["items"]
    return found
