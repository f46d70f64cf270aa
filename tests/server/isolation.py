"""Tenants and operations for the tests of isolation: who there is, and all that can be asked about their things."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import msgspec

from ficha.server.examples import EXAMPLES
from tests.server.test_openapi import SERVER
from tests.support.server_process import Served

EXAMPLE_OF = {kind.__name__: example for kind, example in EXAMPLES.items()}
RECEIVER = "http://127.0.0.1:9/"
"""Where nobody listens, and no worker sends anything."""
STREAMS = {"/api/jobs/{job_id}/events", "/api/account/events"}


class Operation(NamedTuple):
    method: str
    path: str
    scopes: frozenset[str]
    body: str | None
    parameters: tuple[str, ...]


OPERATIONS = [
    Operation(
        method.upper(),
        path,
        frozenset(told.get("x-scopes", ())),
        told["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        if "requestBody" in told
        else None,
        tuple(parameter["name"] for parameter in told.get("parameters", ()) if parameter["in"] == "query"),
    )
    for path, methods in SERVER.openapi()["paths"].items()
    for method, told in methods.items()
]
GUARDED = [operation for operation in OPERATIONS if operation.scopes]


class Tenant:
    """An account with one of everything that an account can have."""

    def __init__(self, server: Served) -> None:
        self.account = f"tenant-{uuid4().hex}"
        self.key = server.account(self.account)
        with server.client(self.key) as user, server.client(server.admin) as admin:
            self.job = _created(user.post("/api/jobs", json={"tool": "upscale", "payload": {"image": "x"}}))["job_id"]
            items = [{"tool": "upscale", "payload": {"image": str(n)}} for n in range(2)]
            self.batch = _created(user.post("/api/batches", json={"items": items}))["batch_id"]
            self.reservation = _created(user.post("/api/reservations", json={}))["id"]
            form = {"file": ("cat.txt", b"meow")}
            self.file = _created(user.post("/api/uploads", files=form))["file"]["id"]
            self.token = _created(user.post(f"/api/jobs/{self.job}/token", json={}))["token"]
            added = _created(user.post("/api/webhook-endpoints", json={"url": RECEIVER}))
            self.webhook = added["webhook"]["id"]
            self.delivery = user.post(f"/api/webhook-endpoints/{self.webhook}/test").json()["id"]
            keys = admin.get("/api/admin/api-keys", params={"limit": 1000}).json()["items"]
            self.key_id = next(key["id"] for key in keys if key["account"] == self.account)
            jobs = user.get("/api/jobs", params={"batch": self.batch}).json()["items"]
        self.ids = {
            self.account,
            self.job,
            self.batch,
            self.reservation,
            self.file,
            self.key_id,
            *(job["id"] for job in jobs),
        }
        self.ids |= {self.webhook, self.delivery}

    def request(self, operation: Operation, *, named: bool) -> dict[str, Any]:
        """The operation asked about this tenant's things; `named`: also where the account has to be said."""
        path = re.sub(r"\{(\w+)\}", lambda found: self.thing(found[1]), operation.path)
        request: dict[str, Any] = {"method": operation.method, "url": path}
        if operation.body is not None:
            body = dict(EXAMPLE_OF[operation.body])
            text = json.dumps(body).replace("0198f1a2-7c3e-7d4b-9a51-3f6c2e8b7a10", self.job)
            body = json.loads(text)
            if operation.path.startswith(("/api/jobs", "/api/quote", "/api/queue/enqueue")) and "tool" in body:
                body |= {"tool": "upscale", "payload": {"image": "x"}, "idempotency_key": uuid4().hex}
                body = {
                    key: value
                    for key, value in body.items()
                    if operation.path != "/api/quote" or key != "idempotency_key"
                }
            if operation.path == "/api/batches":
                body["items"] = [{"tool": "upscale", "payload": {"image": "x"}}]
            if operation.path == "/api/webhook-endpoints":
                body["url"] = RECEIVER
            if operation.path == "/api/admin/accounts":
                body["account"] = f"further-{uuid4().hex}"
            if operation.path == "/api/admin/api-keys":
                body |= {"name": uuid4().hex}
            body |= {"wait_s": 0} if "wait_s" in body else {}
            if operation.path.endswith("/resize"):
                # Back to what is declared: other tests use the same pools.
                body["slots"] = None
            if named and _has_account(operation):
                body["account"] = self.account
            request["json"] = body
        if named and "account" in operation.parameters:
            request["params"] = {"account": self.account}
        if operation.path == "/api/batches/lines":
            request["content"] = '{"tool": "upscale", "payload": {"image": "x"}}'
            request["headers"] = {"Content-Type": "application/x-ndjson"}
        if operation.path in STREAMS:
            request["headers"] = {"Accept": "application/json"}
        return request

    def thing(self, parameter: str) -> str:
        things = {
            "job_id": self.job,
            "batch_id": self.batch,
            "reservation_id": self.reservation,
            "file_id": self.file,
            "account": self.account,
            "key_id": self.key_id,
            "webhook_id": self.webhook,
            "delivery_id": self.delivery,
            "pool": "gpu",
            # Not the one that other tests submit to: it is paused and closed.
            "tool": "settle",
            "provider": "loopback",
            "bulk_id": self.job,
            "session": f"of-{self.job}",
            "schedule": "nightly",
            "token": f"{self.job}.0.signature",
        }
        return things[parameter]

    def state(self, server: Served) -> Any:
        """All that could be changed of it."""
        with server.client(self.key) as user:
            return (
                user.get(f"/api/jobs/{self.job}").json()["status"],
                user.get(f"/api/batches/{self.batch}").json()["by_status"],
                user.get("/api/account").json()["balance"],
                [entry["number"] for entry in user.get("/api/account/ledger").json()["items"]],
                {hold["id"]: hold["state"] for hold in user.get("/api/reservations").json()["items"]},
                [file["id"] for file in user.get("/api/files").json()["items"]],
                user.get("/api/webhook-endpoints").json(),
                user.get("/api/webhook-deliveries").json()["items"],
            )


def _has_account(operation: Operation) -> bool:
    kind = next(kind for kind in EXAMPLES if kind.__name__ == operation.body)
    return "account" in {field.name for field in msgspec.structs.fields(kind)} and "/admin/" not in operation.path


def _created(answer: httpx.Response) -> Any:
    assert answer.status_code == 201, answer.text
    return answer.json()
