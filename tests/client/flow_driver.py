"""Flows without a network: what they ask for, step by step, and what comes of the answers that a test gives them."""

from collections.abc import Callable
from typing import Any

import httpx
import msgspec

from ficha import Refused
from ficha.client import Client, Retries, ServerError, Unreachable
from ficha.client.effects import Emit, Open, Pause, Ride, Send
from ficha.client.retries import STANDARD
from ficha.outbound import Answer

JOB_ID = "0190f2c4-0000-7000-8000-000000000001"

LOST = Unreachable("lost on the way", reached=True)
REFUSED = Unreachable("connection refused", reached=False)


class Trial:
    """A flow driven to its end: the steps it asked for, what it emitted, and its result or what it raised."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.emitted: list[Any] = []
        self.result: Any = None
        self.error: Exception | None = None

    @property
    def sent(self) -> list[Send]:
        return [step for step in self.steps if isinstance(step, Send)]

    @property
    def opened(self) -> list[Send]:
        return [step.request for step in self.steps if isinstance(step, Open)]

    @property
    def pauses(self) -> list[float]:
        return [step.seconds for step in self.steps if isinstance(step, Pause)]

    def bodies(self) -> list[Any]:
        return [msgspec.json.decode(step.body) for step in self.sent if step.body is not None]


def _nowhere(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"{request.url} was really sent")


class FlowDriver:
    """A client whose time is the test's: pauses pass at once, and requests take as long as the test says."""

    def __init__(self, retries: Retries = STANDARD, drawn: float = 1.0, took_s: float = 0.0) -> None:
        self.now = 0.0
        self.took_s = took_s
        self.client = Client(
            "http://ficha.test",
            "a-token",
            retries=retries,
            transport=httpx.MockTransport(_nowhere),
            clock=lambda: self.now,
            random=lambda: drawn,
        )

    def drive(self, operation: Any, *args: Any, replies: Callable[[Any], Any] | list[Any], **kwargs: Any) -> Trial:
        """Runs an operation's flow. A reply is an answer, or an exception for a request that got none; those of a list
        must all be asked for."""
        trial = Trial()
        given = iter([] if callable(replies) else replies)
        try:
            ride = Ride(operation.flow(self.client, *args, **kwargs))
            while ride.step is not None:
                self._step(trial, ride, replies if callable(replies) else lambda _: next(given))
            trial.result = ride.result
        except (Refused, ServerError, TimeoutError) as error:
            trial.error = error
        assert list(given) == []
        return trial

    def _step(self, trial: Trial, ride: Any, reply: Callable[[Any], Any]) -> None:
        if isinstance(ride.step, Emit):
            trial.emitted.append(ride.step.value)
            ride.answer(None)
            return
        trial.steps.append(ride.step)
        if isinstance(ride.step, Pause):
            self.now += ride.step.seconds
            ride.answer(None)
            return
        self.now += self.took_s
        given = reply(ride.step)
        if isinstance(given, Exception):
            ride.fail(given)
        else:
            ride.answer(given)


def ok(value: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(status, headers, msgspec.json.encode(value))


def problem(
    code: str, status: int, *, retryable: bool = False, retry_after_s: float | None = None, **more: Any
) -> Answer:
    body = {
        "type": "about:blank",
        "title": code,
        "status": status,
        "detail": f"it is {code}",
        "code": code,
        "retryable": retryable,
        "retry_after_s": retry_after_s,
        "correlation_id": "c-1",
        **more,
    }
    return Answer(status, {"content-type": "application/problem+json"}, msgspec.json.encode(body))


def job(status: str = "queued", **fields: Any) -> dict[str, Any]:
    """A job as a server sends it."""
    at = "2026-01-01T00:00:00Z"
    return {
        "id": JOB_ID,
        "account": "ana",
        "session": None,
        "tool": "draw",
        "pool": "gpu",
        "status": status,
        "position": 1 if status == "queued" else None,
        "estimated_wait_s": None,
        "waiting_for": "place" if status == "queued" else None,
        "waited_in_queue": 0.0,
        "priority": 50,
        "cost": 5,
        "charged": 5,
        "refunded": 0,
        "units": 1,
        "delivered": None,
        "payload": {},
        "result": None,
        "error": None,
        "user_error": None,
        "attempts": 0,
        "max_attempts": 3,
        "recoveries": 0,
        "late_finishes": 0,
        "callbacks": 0,
        "epoch": 0,
        "checkpoint": None,
        "progress": 0,
        "resume_data": None,
        "partial": None,
        "locked_by": None,
        "locked_at": None,
        "lock_expires_at": None,
        "last_heartbeat_at": None,
        "provider_ref": None,
        "provider_cost": None,
        "batch": None,
        "correlation_id": None,
        "requeue_of": None,
        "is_dead_letter": False,
        "plan": "free",
        "is_first": False,
        "deadline_at": None,
        "created_at": at,
        "scheduled_at": None,
        "started_at": None,
        "finished_at": None,
        **fields,
    }


def event(number: int, kind: str = "log") -> dict[str, Any]:
    return {"number": number, "job_id": JOB_ID, "kind": kind, "data": {}, "at": "2026-01-01T00:00:00Z"}


def receipt(**fields: Any) -> dict[str, Any]:
    """What a submit is answered with."""
    return {
        "success": True,
        "job_id": JOB_ID,
        "status": "queued",
        "idempotent_hit": False,
        "position": 1,
        "priority": 50,
        "cost": 5,
        "new_balance": 95,
        "batch_id": None,
        "jobs": 1,
        "quota_warnings": [],
        "cost_limit_warning": None,
        "rate": {"limit": 10, "left": 9, "resets_s": 60},
        "job": None,
        **fields,
    }


def account(**fields: Any) -> dict[str, Any]:
    return {
        "id": "ana",
        "plan": "free",
        "balance": 10,
        "active": 0,
        "admitted": 0,
        "parked": 0,
        "submitted": 0,
        "submits_this_hour": 0,
        "spent_today": 0,
        "spent_this_month": 0,
        "active_job": None,
        "opened_at": "2026-01-01T00:00:00Z",
        **fields,
    }


def credited(**fields: Any) -> dict[str, Any]:
    return {"account": "ana", "plan": "free", "balance": 15, "entry": 2, "idempotent_hit": False, **fields}


def hold(**fields: Any) -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    return {
        "id": JOB_ID,
        "account": "ana",
        "state": "active",
        "job_id": None,
        "created_at": at,
        "expires_at": at,
        "quota_warnings": [],
        **fields,
    }
