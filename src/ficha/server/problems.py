"""Problems (RFC 9457): a refusal as an answer, with the code that the in-process face and the command line use."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from starlette.responses import Response

from ..core.outcomes import HTTP_STATUS, RETRYABLE
from ..errors import Refused

EdgeCode = Literal[
    "HEADERS_TOO_LARGE",
    "INTERNAL",
    "INVALID_JSON",
    "INVALID_REQUEST",
    "METHOD_NOT_ALLOWED",
    "NOT_ACCEPTABLE",
    "TIMEOUT",
    "UNSUPPORTED_MEDIA_TYPE",
]
EDGE_STATUS: Final[dict[EdgeCode, int]] = {
    "HEADERS_TOO_LARGE": 431,
    "INTERNAL": 500,
    "INVALID_JSON": 400,
    "INVALID_REQUEST": 400,
    "METHOD_NOT_ALLOWED": 405,
    "NOT_ACCEPTABLE": 406,
    "TIMEOUT": 408,
    "UNSUPPORTED_MEDIA_TYPE": 415,
}
"""What only HTTP can get wrong; the rules know nothing of it."""

STATUS: Final[dict[str, int]] = dict((*HTTP_STATUS.items(), *EDGE_STATUS.items()))
MEDIA_TYPE: Final = "application/problem+json"


class Problem(Struct, frozen=True, kw_only=True):
    """Why a call was refused. Nothing was changed.

    code: stable, for programs. detail: for people; says what to do.
    retryable: whether the same call may pass later with nothing else done.
    retry_after_s: when to try again, if it makes sense to.
    Further members depend on the code, such as `have` and `need` with INSUFFICIENT_CREDITS.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    retry_after_s: float | None = None
    correlation_id: str | None = None


class EdgeError(Exception):
    """A request that is wrong as HTTP, before any operation is called."""

    def __init__(self, code: EdgeCode, detail: str) -> None:
        super().__init__(detail)
        self.code: EdgeCode = code


def refused_response(refused: Refused, correlation_id: str | None = None) -> Response:
    """The answer that a refusal of the operations becomes."""
    headers = {"WWW-Authenticate": 'Bearer realm="ficha"'} if refused.code == "UNAUTHENTICATED" else {}
    return problem_response(
        refused.code,
        refused.message,
        retry_after_s=refused.retry_after_s,
        correlation_id=correlation_id,
        headers=headers,
        **refused.details,
    )


def problem_response(
    code: str,
    detail: str,
    *,
    retry_after_s: float | None = None,
    correlation_id: str | None = None,
    headers: dict[str, str] | None = None,
    **details: Any,
) -> Response:
    more = dict(headers or {})
    if retry_after_s is not None:
        more["Retry-After"] = str(max(1, math.ceil(retry_after_s)))
    body = problem(code, detail, retry_after_s=retry_after_s, correlation_id=correlation_id, **details)
    return Response(msgspec.json.encode(body), STATUS[code], more, MEDIA_TYPE)


def problem(
    code: str, detail: str, *, retry_after_s: float | None = None, correlation_id: str | None = None, **details: Any
) -> dict[str, Any]:
    """A problem's members; what the details say never hides one of them."""
    told = Problem(
        type=f"urn:ficha:problem:{code.lower().replace('_', '-')}",
        title=code.replace("_", " ").capitalize(),
        status=STATUS[code],
        detail=detail,
        code=code,
        retryable=code in RETRYABLE,
        retry_after_s=retry_after_s,
        correlation_id=correlation_id,
    )
    return {**details, **msgspec.structs.asdict(told)}
