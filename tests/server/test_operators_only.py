"""What is for operators and workers: who runs a job, where its tool would resume, the provider's reference. The job's
owner reads none of it, by whatever route or stream they look."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx

from tests.server.isolation import OPERATIONS, Tenant
from tests.support.server_process import Served

LIVE = {"Accept": "text/event-stream", "Last-Event-ID": "0"}


class Planted(Tenant):
    """A tenant with jobs whose worker, checkpoint, reference and reasons are canaries."""

    def __init__(self, server: Served) -> None:
        super().__init__(server)
        self.canaries = {name: f"{name}-{uuid4().hex}" for name in ("host", "data", "ref", "step", "reason", "error")}
        with server.client(self.key) as user, server.client(server.service) as service:

            def told(path: str, lease: dict[str, object], **more: Any) -> None:
                answer = service.post(f"/api/worker/{path}", json={**lease, **more})
                assert answer.status_code == 200, answer.text

            def taken() -> dict[str, object]:
                job = user.post("/api/jobs", json={"tool": "stubborn", "idempotency_key": uuid4().hex}).json()["job_id"]
                lease = server.take(job, worker=self.canaries["host"])
                told("checkpoint", lease, name="HALF", data={"at": self.canaries["data"]})
                told("step", lease, name="first", result=self.canaries["step"])
                return lease

            ended = taken()
            told("finish", ended, outcome="returned", reason=self.canaries["reason"])
            again = server.take(str(ended["job_id"]), worker=self.canaries["host"])
            told("finish", again, outcome="failed", error=self.canaries["error"], final=True)
            accepted = taken()
            told("finish", accepted, outcome="accepted", ref=self.canaries["ref"])
            running = taken()
        self.jobs = [str(lease["job_id"]) for lease in (ended, accepted, running)]

    def found_in(self, texts: list[str]) -> set[str]:
        whole = "".join(texts)
        return {name for name, canary in self.canaries.items() if canary in whole}


def answers(caller: httpx.Client, tenant: Planted, scope: str) -> list[str]:
    """All that a caller of this scope can be answered about each of the jobs: looks first, then acts."""
    texts = []
    for job in tenant.jobs:
        tenant.job = job
        for operation in sorted(OPERATIONS):
            if operation.scopes and scope not in operation.scopes:
                continue
            texts.append(caller.request(**tenant.request(operation, named=False)).text)
            if operation.path == "/api/jobs" and operation.method == "POST":
                asked = tenant.request(operation, named=False)
                texts.append(caller.request(**asked, headers={"Prefer": "wait=0"}).text)
    return texts


def streams(caller: httpx.Client, tenant: Planted, account: str | None = None) -> list[str]:
    """The beginning of every stream, with all that has happened so far; one that goes on is left at its first message
    about the present."""
    texts = []
    for job in tenant.jobs:
        with caller.stream("GET", f"/api/jobs/{job}/events", headers=LIVE) as stream:
            texts.append(_until(stream, "event: job", more=2))
    parameters = {} if account is None else {"account": account}
    with caller.stream("GET", "/api/account/events", headers=LIVE, params=parameters) as stream:
        last = f'"job_id":"{tenant.jobs[-1]}","kind":"step"'
        texts.append(_until(stream, last))
    return texts


def _until(stream: httpx.Response, text: str, more: int = 0) -> str:
    seen = ""
    for line in (lines := stream.iter_lines()):
        seen += line
        if text in line:
            return seen + "".join(next(lines) for _ in range(more))
    raise AssertionError(f"the stream ended without {text}: {seen}")


def test_no_copy_is_kept_of_what_operators_are_answered(server: Served) -> None:
    tenant = Tenant(server)
    gets = [operation for operation in OPERATIONS if operation.method == "GET"]
    for scope, key in (("admin", server.admin), ("service", server.service), ("viewer", server.viewer)):
        with server.client(key) as operator:
            for operation in gets:
                if scope in operation.scopes:
                    answer = operator.request(**tenant.request(operation, named=True))
                    assert answer.headers.get_list("cache-control") == ["no-store"], operation
    with server.client(tenant.key) as user:
        job = user.get(f"/api/jobs/{tenant.job}")
        assert job.headers["cache-control"] == "private, no-cache"
        assert user.get(f"/api/files/{tenant.file}").headers["cache-control"] == "private, no-cache"
    with server.client(server.admin) as admin:
        again = admin.get(f"/api/jobs/{tenant.job}", headers={"If-None-Match": "*"})
        assert (again.status_code, again.headers["cache-control"]) == (304, "no-store")


def test_no_answer_and_no_stream_shows_the_owner_what_is_for_operators(server: Served) -> None:
    tenant = Planted(server)
    with server.client(tenant.key) as user, server.client(server.service) as service:
        tokens = [user.post(f"/api/jobs/{job}/token").json()["token"] for job in tenant.jobs]
        texts = streams(user, tenant)
        for job, token in zip(tenant.jobs, tokens, strict=True):
            with server.client(token) as browser, browser.stream("GET", f"/api/jobs/{job}/events", headers=LIVE) as one:
                texts.append(_until(one, "event: job", more=2))
        operators = streams(service, tenant, tenant.account)
        for job in tenant.jobs:
            operators.append(service.get(f"/api/jobs/{job}").text)
            texts.append(user.get(f"/api/jobs/{job}").text)
        assert tenant.found_in(operators) == {"host", "data", "ref", "reason", "error"}
        for token in tokens:
            with server.client(token) as browser:
                texts += answers(browser, tenant, "job")
        # It cancels what is still running, so it comes last.
        texts += answers(user, tenant, "user")

    assert tenant.found_in(texts) == set()
    assert all(job in "".join(texts) for job in tenant.jobs)
