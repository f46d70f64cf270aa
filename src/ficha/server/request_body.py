"""Request bodies: JSON, parsed strictly and converted to the type that a route takes.

Nothing large is done on the event loop: a large body is parsed, checked and made canonical on a thread, in slices.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any, Final, TypeVar

from fastapi import Depends
from starlette.requests import Request

from ..requests import BatchRequest
from ..validation import Limits
from .batch_body import read_batch
from .body_values import converted, with_checked_json
from .problems import EdgeError
from .strict_json import strict_json, utf8

T = TypeVar("T")
LARGE_BYTES: Final = 32_768
"""Bodies from this size are read on the thread. Everything done with a smaller one takes a few milliseconds."""


def body(kind: type[T], *, optional: bool = False) -> Any:
    """A dependency that reads the request's body as a `kind`. An optional body may be empty."""

    async def read(request: Request) -> T:
        text = await request.body()
        if not text and optional:
            return kind()
        _check_type(request)
        if len(text) < LARGE_BYTES:
            return converted(strict_json(text), kind)
        state = request.app.state
        reading = partial(read_large, text, kind, state.ficha.limits, state.settings.body_bytes)
        found: T = await state.body_thread.run(request, reading)
        return found

    read.kind = kind  # type: ignore[attr-defined]  # The OpenAPI document looks here.
    read.optional = optional  # type: ignore[attr-defined]
    return Depends(read)


def _check_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    kind, _, parameters = given.partition(";")
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise EdgeError(
            "UNSUPPORTED_MEDIA_TYPE",
            f"send the body as JSON in UTF-8, with Content-Type: application/json, not {given[:80]!r}",
        )


def read_large(text: bytes, kind: Any, limits: Limits, most: int) -> Generator[None, None, Any]:
    """Reads a large body, in slices of work. The payloads and results in it are checked and canonical.

    most: the largest body of a single submit, which an item of a batch must not exceed either.
    """
    if kind is BatchRequest:
        return (yield from read_batch(utf8(text), limits, most))
    return with_checked_json(converted(strict_json(text), kind), limits)
