"""The log of `ficha` processes: JSON lines, or text with the same fields in a terminal. Neither has a character that
controls a terminal, whatever is logged."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import MutableMapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ..job_log import JobLogFilter
from .output import printable

if TYPE_CHECKING:
    import structlog

LINES: Final = ("exception", "stack")
"""The fields that are texts of several lines."""


class LogForm(StrEnum):
    """How log lines are written: `auto` is text in a terminal and JSON elsewhere."""

    auto = "auto"
    json = "json"
    text = "text"


class LogLevel(StrEnum):
    """What is logged: lines of this level, and of those above it."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def is_for_people(form: LogForm) -> bool:
    """Whether log lines are text, not JSON."""
    return form is LogForm.text or (form is LogForm.auto and sys.stderr.isatty())


def configure(form: LogForm, level: LogLevel = LogLevel.info) -> None:
    """Sends all of Python's logging to standard error, in one form, with its extra fields."""
    import structlog

    for_people = is_for_people(form)
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=10, exception_formatter=_write_traceback)
        if for_people
        else structlog.processors.JSONRenderer(_json)
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(JobLogFilter())
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
                _spelled_out if for_people else _tracebacks(),
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # It would log the URL of every request, and some contain keys.
    logging.getLogger("httpx").setLevel(max(logging.WARNING, root.level))


def plain_unconfigured() -> None:
    """Makes printable what is logged before, or without, `configure`, when Python writes warnings to standard error."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_PlainFormatter())


class _PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n\t")


class _Shown:
    """A value whose text is known."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _spelled_out(_: Any, __: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The fields of a line as text that can be shown, before colours are added."""
    return {printable(str(name)): _spelled_value(name, value) for name, value in fields.items()}


def _spelled_value(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, keep="\n\t" if name in LINES else "")
    if value is None or isinstance(value, int | float) or name == "exc_info":
        return value
    return _Shown(printable(repr(value)))


def _write_traceback(out: Any, error: Any) -> None:
    import structlog

    text = io.StringIO()
    structlog.dev.plain_traceback(text, error)
    out.write(printable(text.getvalue(), keep="\n\t"))


def _json(fields: Any, **options: Any) -> str:
    # All else that a terminal acts on is escaped in JSON.
    return json.dumps(fields, **options).replace("\x7f", "\\u007f")


def _tracebacks() -> structlog.typing.Processor:
    """Exceptions as JSON, without the values of variables, which may be secrets."""
    import structlog
    from structlog.tracebacks import ExceptionDictTransformer

    return structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
