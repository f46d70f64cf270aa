"""Kinds of errors: texts that differ only in numbers and ids are of one kind."""

from __future__ import annotations

import re
from typing import Final

REASON_LENGTH: Final = 120
"""Characters of an error text that make up its reason."""
NO_REASON: Final = "no reason given"
_VARYING: Final = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # a UUID
    r"|\b0x[0-9a-f]+"  # an address
    r"|\b(?=[a-f]*[0-9])[0-9a-f]{12,}\b|\b(?=[a-z_]*[0-9])[0-9a-z_]{16,}\b"  # another id
    r"|[0-9]+(?:[.,:][0-9]+)*",  # a number, a time
    re.IGNORECASE,
)


def error_kind(error: str) -> str:
    """The text with `…` in place of numbers and ids."""
    return _VARYING.sub("…", error)


def error_reason(error: str | None) -> str:
    """The reason of an error: the kind of its first line, cut to a length."""
    line = (error or "").strip().partition("\n")[0]
    # Ids are replaced before the final cut: a cut inside an id would leave a part that is not recognised.
    return error_kind(line[: 4 * REASON_LENGTH])[:REASON_LENGTH].strip() or NO_REASON
