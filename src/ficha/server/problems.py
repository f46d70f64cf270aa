"""Problems (RFC 9457): a refusal as an answer, with the code that the in-process face and the command line use."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.responses import Response

from ..core.codes import CODES, AnyCode, HttpCode
from ..errors import Refused

MEDIA_TYPE: Final = "application/problem+json"
DETAIL_CHARACTERS: Final = 2_000
"""The most that a problem says. It may quote what the caller sent, and that may be long."""


class Problem(Struct, frozen=True, kw_only=True):
    """Why a call was refused. Nothing was changed.

    code: stable, for programs. detail: for people; says what to do.
    retryable: whether the same call may pass later with nothing else done.
    retry_after_s: when to try again, if it makes sense to.
    success, error: always false, and what was refused and why as one text: for clients that look at every answer's
    `success` first, as that of a submit has.
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
    success: bool = False
    error: str


class EdgeError(Exception):
    """A request that is wrong as HTTP, before any operation is called."""

    def __init__(self, code: HttpCode, detail: str) -> None:
        super().__init__(detail)
        self.code: HttpCode = code


def refused_response(refused: Refused, correlation_id: str | None = None) -> Response:
    """Turns a refusal of the operations into an answer."""
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
    code: AnyCode,
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
    return Response(msgspec.json.encode(body), CODES[code].status, more, MEDIA_TYPE)


def problem(
    code: AnyCode, detail: str, *, retry_after_s: float | None = None, correlation_id: str | None = None, **details: Any
) -> dict[str, Any]:
    """A problem's members; `details` never replaces one of them."""
    title, shown = code.replace("_", " ").capitalize(), _quotable(detail)
    told = Problem(
        type=f"urn:ficha:problem:{code.lower().replace('_', '-')}",
        title=title,
        status=CODES[code].status,
        detail=shown,
        code=code,
        retryable=CODES[code].retryable,
        retry_after_s=retry_after_s,
        correlation_id=correlation_id,
        error=f"{title}: {shown}",
    )
    return {**details, **msgspec.structs.asdict(told)}


def _quotable(detail: str) -> str:
    """The text, cut, and valid Unicode: what it quotes may be long and may be invalid."""
    shown = detail if len(detail) <= DETAIL_CHARACTERS else detail[:DETAIL_CHARACTERS] + "…"
    return shown if shown.isascii() else shown.encode("utf-8", "backslashreplace").decode()
