"""Errors of one kind: texts that differ only in numbers and ids are one reason."""

from __future__ import annotations

import re
from typing import Final

REASON_LENGTH: Final = 120
"""Characters of an error text that make up its reason."""
NO_REASON: Final = "no reason given"
_VARYING: Final = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"  # a UUID
    r"|\b(?=[a-zA-Z_]*[0-9])[0-9a-zA-Z_]{16,}\b"  # an id of letters and digits
    r"|[0-9]+(?:[.,:][0-9]+)*"  # a number, a time
)


def error_reason(error: str | None) -> str:
    """The reason of an error: its first line, with `…` in place of numbers and ids, and cut to a length."""
    line = (error or "").strip().partition("\n")[0]
    # What is cut away must not decide where an id ends.
    reason = _VARYING.sub("…", line[: 4 * REASON_LENGTH])
    return reason[:REASON_LENGTH].strip() or NO_REASON
