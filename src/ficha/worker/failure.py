"""A failed run, as a value: what a handler raised, or how its process ended; and a tool that could not be set up."""

from __future__ import annotations

import traceback
from typing import Final

from msgspec import Struct

from ..tools import Tool
from .results import FinalError, is_for_owner

SHOWN_CHARS: Final = 5_000
"""How many characters of a traceback's beginning, and of its end, are logged. A message is cut to four times as many
before secrets are searched in it; the job keeps fewer."""


class Failure(Struct, frozen=True):
    """A failed run. `final`: a retry cannot help. `lost`: its process died. `for_user`: the job's owner may read
    `error`; the traceback is for operators."""

    error: str
    final: bool = False
    lost: bool = False
    traceback: str | None = None
    for_user: bool = False

    @classmethod
    def of(cls, error: BaseException, tool: Tool) -> Failure:
        """What a handler raised, as the job's error."""
        shown, kind, text = _traceback(error), type(error).__name__, _message(error)
        if isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
            return cls(f"the handler raised {kind}: {text}".rstrip(": "), traceback=shown)
        final = isinstance(error, (FinalError, *tool.fatal))
        return cls(text or kind, final, traceback=shown, for_user=is_for_owner(error) and bool(text))


class SetupFailed(Exception):
    """The tool could not be set up, so the run has not begun. This is not a failure of the job, which goes back to the
    queue. The traceback is only for the log."""

    def __init__(self, error: str, traceback: str | None = None) -> None:
        super().__init__(error, traceback)
        self.error = error
        self.traceback = traceback

    def __str__(self) -> str:
        return self.error

    @classmethod
    def of(cls, error: BaseException) -> SetupFailed:
        """What the tool's setup raised."""
        return cls(f"{type(error).__name__}: {_message(error)}".rstrip(": "), _traceback(error))


def _traceback(error: BaseException) -> str:
    shown = "".join(traceback.format_exception(error))
    return shown if len(shown) <= 2 * SHOWN_CHARS else f"{shown[:SHOWN_CHARS]} … {shown[-SHOWN_CHARS:]}"


def _message(error: BaseException) -> str:
    try:
        return str(error)[: 4 * SHOWN_CHARS]
    except Exception:
        # `__str__` itself failed: the caller uses the exception's name.
        return ""
