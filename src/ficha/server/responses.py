"""Responses: values as JSON, with their headers."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from ..core.outcomes import Rate
from ..engine.views import JobView

JSON: Final = "application/json"


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, JSON)


def job_answer(job: JobView, request: Request) -> Response:
    """A job with an ETag; 304 if the caller has this version."""
    return polled(job, request, news(job))


def polled(value: Any, request: Request, told: Any = None) -> Response:
    """An answer for callers that poll, with an ETag; 304 if the caller has this version.

    told: the part of the value whose changes make a new version; None for the whole value.
    """
    encoded = msgspec.json.encode(value if told is None else told)
    tag = f'W/"{hashlib.sha256(encoded).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    return Response(None, 304, headers) if has_seen(request, tag) else answer(value, headers=headers)


def has_seen(request: Request, tag: str) -> bool:
    """Whether the caller has the version of this ETag."""
    seen = {part.strip() for line in request.headers.getlist("if-none-match") for part in line.split(",")}
    # Compared weakly (RFC 9110): a proxy on the way may have taken the mark `W/` away, or added it.
    return "*" in seen or tag.removeprefix("W/") in {part.removeprefix("W/") for part in seen}


def news(job: JobView) -> JobView:
    """The job without heartbeats and times that change continuously."""
    return replace(job, waited_in_queue=0.0, estimated_wait_s=None, last_heartbeat_at=None, lock_expires_at=None)


def rate_headers(rate: Rate | None) -> dict[str, str]:
    """The plan's limit on submits, in the fields of the IETF's draft on rate limits."""
    if rate is None:
        return {}
    return {
        "RateLimit-Policy": f'"submits";q={rate.limit};w=3600',
        "RateLimit": f'"submits";r={rate.left};t={rate.resets_s}',
    }
