"""A run that did not work, as a value: what a handler raised, or how its process ended."""

from __future__ import annotations

import traceback
from typing import Final

from msgspec import Struct

from ..tools import Tool
from .results import FinalError

SHOWN: Final = 5_000
"""Characters of a traceback's beginning and of its end that are logged; four times as many of a message are looked at,
of which fewer are kept."""


class Failure(Struct, frozen=True):
    """A run that did not work. `final`: running again cannot help. `lost`: it took its process down. The traceback is
    for the worker's log alone."""

    error: str
    final: bool = False
    lost: bool = False
    traceback: str | None = None

    @classmethod
    def of(cls, error: BaseException, tool: Tool) -> Failure:
        """What a handler raised, as the job's error."""
        shown = "".join(traceback.format_exception(error))
        if len(shown) > 2 * SHOWN:
            shown = f"{shown[:SHOWN]} … {shown[-SHOWN:]}"
        kind = type(error).__name__
        try:
            words = str(error)[: 4 * SHOWN]
        except Exception:
            # An exception whose own words fail is told by its name.
            words = ""
        if isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
            return cls(f"the handler raised {kind}: {words}".rstrip(": "), traceback=shown)
        return cls(words or kind, isinstance(error, (FinalError, *tool.fatal)), traceback=shown)
