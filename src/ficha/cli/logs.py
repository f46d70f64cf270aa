"""The log of `ficha` processes: JSON lines, or text with the same fields in a terminal."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import structlog


class LogForm(StrEnum):
    """How log lines are written: `auto` is text in a terminal and JSON elsewhere."""

    auto = "auto"
    json = "json"
    text = "text"


def configure(form: LogForm, level: str = "info") -> None:
    """Sends all of Python's logging to standard error, in one form, with its extra fields."""
    import structlog

    for_people = form is LogForm.text or (form is LogForm.auto and sys.stderr.isatty())
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), pad_event_to=10, exception_formatter=structlog.dev.plain_traceback
        )
        if for_people
        else structlog.processors.JSONRenderer()
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(),
                structlog.processors.TimeStamper(fmt="%H:%M:%S" if for_people else "iso", utc=not for_people),
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *([] if for_people else [_tracebacks()]),
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # It would log the URL of every request, and some contain keys.
    logging.getLogger("httpx").setLevel(max(logging.WARNING, root.level))


def _tracebacks() -> structlog.typing.Processor:
    """Exceptions as JSON, without the values of variables, which may be secrets."""
    import structlog
    from structlog.tracebacks import ExceptionDictTransformer

    return structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
