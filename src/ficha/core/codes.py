"""Every code that a call can be refused with, once: when it is given, its HTTP status, whether to try again.

The code is the same in exceptions (`errors.py` has a class for most), in problems over HTTP, on the command line and in
the documentation.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Code = Literal[
    "ACCOUNT_CLOSED",
    "ACTIVE_JOB_EXISTS",
    "COST_LIMIT",
    "FORBIDDEN",
    "IDEMPOTENCY_MISMATCH",
    "INSUFFICIENT_CREDITS",
    "INVALID_ARGUMENT",
    "INVALID_FILE",
    "INVALID_PAYLOAD",
    "INVALID_STATE",
    "LEASE_LOST",
    "NOT_FOUND",
    "OVERLOADED",
    "PROVIDER_DOWN",
    "QUOTA_EXCEEDED",
    "RATE_LIMITED",
    "TOOL_CLOSED",
    "TOO_LARGE",
    "UNAUTHENTICATED",
    "UNKNOWN_TOOL",
]
HttpCode = Literal[
    "HEADERS_TOO_LARGE",
    "INTERNAL",
    "INVALID_JSON",
    "INVALID_REQUEST",
    "METHOD_NOT_ALLOWED",
    "NOT_ACCEPTABLE",
    "TIMEOUT",
    "UNSUPPORTED_MEDIA_TYPE",
]
"""Codes of errors that only exist over HTTP; no rule gives them."""
AnyCode = Code | HttpCode


class CodeFacts(Struct, frozen=True):
    """What is known of a code. `retryable`: the same call may succeed later, unchanged."""

    when: str
    status: int
    retryable: bool = False


CODES: Final[dict[AnyCode, CodeFacts]] = {
    "ACCOUNT_CLOSED": CodeFacts("the account was erased, and takes nothing new", 410),
    "ACTIVE_JOB_EXISTS": CodeFacts("the plan allows one active job, and there is one", 409),
    "COST_LIMIT": CodeFacts("the spending limit of the day or month is reached", 402),
    "FORBIDDEN": CodeFacts("the caller's key or plan does not allow it", 403),
    "IDEMPOTENCY_MISMATCH": CodeFacts("the key was used before, for something else", 422),
    "INSUFFICIENT_CREDITS": CodeFacts("the balance does not cover the cost", 402),
    "INVALID_ARGUMENT": CodeFacts("an argument is out of its range or of the wrong form", 422),
    "INVALID_FILE": CodeFacts("the file's content is not safe to keep, or its name is no name", 422),
    "INVALID_PAYLOAD": CodeFacts(
        "the payload is not what the tool takes, or not JSON, or names a file that the account does not have", 422
    ),
    "INVALID_STATE": CodeFacts("the thing's present state does not allow it", 409),
    "LEASE_LOST": CodeFacts("the worker no longer holds the job, and must stop working on it", 409),
    "NOT_FOUND": CodeFacts("there is no such thing, or it is somebody else's", 404),
    "OVERLOADED": CodeFacts("too many calls wait already, or the database cannot be reached", 503, retryable=True),
    "PROVIDER_DOWN": CodeFacts("the tool's external provider keeps failing; nothing was charged", 503, retryable=True),
    "QUOTA_EXCEEDED": CodeFacts(
        "the account has as many active jobs and reservations, or as many files or bytes of files, as its plan allows",
        429,
    ),
    "RATE_LIMITED": CodeFacts(
        "as many submits this hour as the plan allows, too many log-ins, too much under way, or a provider's own limit",
        429,
        retryable=True,
    ),
    "TOOL_CLOSED": CodeFacts("an operator has closed the tool or its pool for now; nothing was charged", 409),
    "TOO_LARGE": CodeFacts("more than a limit allows", 413),
    "UNAUTHENTICATED": CodeFacts("no valid credential was sent", 401),
    "UNKNOWN_TOOL": CodeFacts("no tool of that name is declared", 404),
    "HEADERS_TOO_LARGE": CodeFacts("the request line and headers are larger than `FICHA_HEADER_BYTES`", 431),
    "INTERNAL": CodeFacts("the server failed; its log has the error under the `correlation_id`", 500),
    "INVALID_JSON": CodeFacts("the body is not JSON, or JSON that parsers disagree about", 400),
    "INVALID_REQUEST": CodeFacts("the request is not HTTP/1.1", 400),
    "METHOD_NOT_ALLOWED": CodeFacts("the URL does not support the method", 405),
    "NOT_ACCEPTABLE": CodeFacts(
        "events come as `text/event-stream` or `application/json`, and the request accepts neither", 406
    ),
    "TIMEOUT": CodeFacts("the body took longer than `FICHA_BODY_S` to arrive", 408),
    "UNSUPPORTED_MEDIA_TYPE": CodeFacts("the `Content-Type` of the body is not JSON", 415),
}
