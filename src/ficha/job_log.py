"""The fields of log lines about jobs. Each line of `LOGGERS` says which job it is about, if the task or thread that
logs works for one; explicit fields of a line take precedence.

The fields: `worker`, `job`, `tool`, `attempt`, `status`, `duration_s` (of the run, or of other work for the job),
`correlation_id`; with a trace also `trace_id` and `span_id`. An unknown field is null, for example if the database is
unreachable and only a job's id is known.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from . import trace_context, tracing
from .core.records import JobSpec

FIELDS: Final = ("worker", "job", "tool", "attempt", "status", "duration_s", "correlation_id")
"""The fields of every line about a job."""
Subject = Callable[[], Mapping[str, Any]]
"""What the lines of a task are about: a function that returns their fields, called when a line is logged."""

LOGGERS: Final = (
    *("ficha.checkpoint_manager", "ficha.files", "ficha.job", "ficha.providers", "ficha.schedules"),
    *("ficha.server", "ficha.tools", "ficha.worker"),
)
"""Ficha's loggers whose lines may be about one job."""
SHARED: Final = ("ficha.engine", "ficha.store")
"""Loggers of work for many jobs at once: their lines are about no job, whichever job started the work."""

_subject: ContextVar[Subject | None] = ContextVar("ficha_log_subject", default=None)


class JobLogFilter(logging.Filter):
    """Adds the fields of the job that is being run to every log line, also to lines of other loggers: yours and those
    of the libraries that you call. Add it to your log handlers:

        handler.addFilter(ficha.JobLogFilter())

    The `ficha` command does so by itself.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name in SHARED:
            return True
        if tracing.active is not None:
            for name, value in tracing.active.ids().items():
                record.__dict__.setdefault(name, value)
        subject = _subject.get()
        if subject is not None:
            for name, value in subject().items():
                record.__dict__.setdefault(name, value)
        return True


for _name in LOGGERS:
    logging.getLogger(_name).addFilter(JobLogFilter())


def begin(subject: Subject) -> None:
    """Makes the lines of this task be about this subject, from now until the task ends."""
    _subject.set(subject)


@contextmanager
def about(subject: Subject) -> Iterator[None]:
    """Makes the lines of this task be about this subject until the block ends."""
    token = _subject.set(subject)
    try:
        yield
    finally:
        _subject.reset(token)


def fields_of(
    job_id: str,
    spec: JobSpec | None = None,
    *,
    worker: str | None = None,
    attempt: int | None = None,
    epoch: int | None = None,
    status: str | None = None,
    duration_s: float | None = None,
    correlation_id: str | None = None,
    tool: str | None = None,
    trace: str | None = None,
) -> dict[str, Any]:
    """The fields of a line about a job, as far as they are known. `trace`: its trace context, if it has one."""
    if spec is not None:
        tool, trace, correlation_id = spec.tool, spec.trace_context, spec.correlation_id
    known = {
        "worker": worker,
        "job": job_id,
        "tool": tool,
        "attempt": attempt,
        "status": status,
        "duration_s": None if duration_s is None else round(duration_s, 6),
        "correlation_id": correlation_id or (None if tool is None else job_id),
    }
    if trace is not None or tracing.active is not None:
        known["trace_id"] = trace_context.trace_id_of(job_id, trace)
        if epoch:
            known["span_id"] = trace_context.run_span_id(job_id, epoch)
    return known


def timed(fields: Callable[[float], Mapping[str, Any]]) -> Subject:
    """A subject whose fields are made from the seconds that have passed since this call."""
    began = time.monotonic()
    return lambda: fields(time.monotonic() - began)
