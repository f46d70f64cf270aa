"""The body of a batch as lines of JSON or CSV."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any, Final

from starlette.requests import Request

from .. import validation as arg
from ..batch_lines import MEDIA_TYPES, BadLine, LineFormat, Schemas, read_items
from ..core.outcomes import Refusal
from ..errors import Refused
from ..requests import BatchItem
from ..validation import Limits
from .body_values import converted, with_checked_json
from .problems import EdgeError
from .strict_json import DECODER, refuse_surrogates, utf8

MEDIA_TYPE_OF: Final[dict[LineFormat, str]] = {form: name for name, form in MEDIA_TYPES.items()}
SLICE_LINES: Final = 500
"""How many lines are read at a time."""


async def sent_items(request: Request, tool: str | None) -> list[BatchItem]:
    """The items that the lines of a request's body describe."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    form = MEDIA_TYPES.get(kind)
    if form is None:
        raise EdgeError(
            "UNSUPPORTED_MEDIA_TYPE", f"send lines, with Content-Type: {' or '.join(MEDIA_TYPES)}, not {kind[:80]!r}"
        )
    text = await request.body()
    state = request.app.state
    schemas = {name: found.schema() for name, found in state.ficha.tools.items()} if form == "csv" else {}
    reading = partial(read_lines, text, form, tool, schemas, state.ficha.limits)
    items: list[BatchItem] = await state.body_thread.run(request, reading)
    return items


def read_lines(
    text: bytes, form: LineFormat, tool: str | None, schemas: Schemas, limits: Limits
) -> Generator[None, None, list[BatchItem]]:
    """Reads the items, in slices of work. Their payloads are checked and canonical."""
    items: list[BatchItem] = []
    # Not splitlines(), which also splits at characters that JSON allows in strings.
    lines = (f"{line}\n" for line in utf8(text).removeprefix("\ufeff").split("\n"))
    try:
        for named, payload in read_items(lines, form, tool, schemas, _parsed):
            if len(items) == limits.batch_jobs:
                words = f"more than {limits.batch_jobs} jobs at once are not allowed; nothing was changed."
                raise Refused.of(Refusal("TOO_LARGE", words))
            item = converted({"tool": named, "payload": payload}, BatchItem, f".items[{len(items)}]")
            items.append(with_checked_json(item, limits))
            if len(items) % SLICE_LINES == 0:
                yield
    except BadLine as error:
        raise arg.invalid(str(error)) from None
    if not items:
        raise arg.invalid("a batch needs at least one line")
    return items


def _parsed(text: str) -> Any:
    try:
        value = DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    refuse_surrogates(value, text)
    return value
