"""W3C trace context: which trace a job belongs to, as text. No OpenTelemetry is needed to take it, store it and pass it
on; `tracing.py` makes the spans.

A job's trace context is stored as its `traceparent` and, after a space, its `tracestate` where there is one. The span
of a run has an id that follows from the job's id and the run's epoch, so every process can compute it.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, Final

STATE_CHARS: Final = 512
"""The longest `tracestate` that is passed on, as the standard requires; a longer one is omitted."""
_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x20-\x7e]*)?")
_STATE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_HEADERS: Final = (b"traceparent", b"tracestate")

of_request: ContextVar[str | None] = ContextVar("ficha_trace_of_request", default=None)
"""The trace context that came with the HTTP request which is being answered."""

made_in_request: ContextVar[list[str] | None] = ContextVar("ficha_traces_made_in_request", default=None)
"""The ids of the traces that began in this request, which came without one: for its line in the log."""


def from_headers(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The trace context of a request, as it is stored; None if it has none, or one that the standard says to ignore."""
    given: dict[bytes, list[str]] = {}
    for name, value in headers:
        if name in _HEADERS:
            given.setdefault(name, []).append(value.decode("latin-1").strip(" \t"))
    parents = given.get(b"traceparent")
    return None if parents is None or len(parents) > 1 else checked(parents[0], ",".join(given.get(b"tracestate", ())))


def checked(parent: str, state: str = "") -> str | None:
    """The two headers as one text. A later version than 00 may have more at its end, which is left out."""
    found = _PARENT.fullmatch(parent)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None) or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    passed_on = len(state) <= STATE_CHARS and _STATE.fullmatch(state) is not None
    return joined(trace_id, span_id, flags, state if passed_on else "")


def joined(trace_id: str, span_id: str, flags: str, state: str = "") -> str:
    return f"00-{trace_id}-{span_id}-{flags}" + (f" {state}" if state else "")


def current() -> str | None:
    """The trace context of the caller: that of OpenTelemetry's current span if this process has loaded OpenTelemetry
    and there is one, else that of the HTTP request."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        found = trace.get_current_span().get_span_context()
        if found.is_valid:
            state = found.trace_state.to_header()
            kept = state if len(state) <= STATE_CHARS else ""
            return joined(f"{found.trace_id:032x}", f"{found.span_id:016x}", f"{found.trace_flags:02x}", kept)
    return of_request.get()


def headers_of(context: str) -> dict[str, str]:
    """The headers that pass a trace context on."""
    parent, _, state = context.partition(" ")
    return {"traceparent": parent, "tracestate": state} if state else {"traceparent": parent}


def trace_id_of(job_id: str, context: str | None) -> str:
    """The trace id of a job; for a job without a context, the job's id."""
    return job_id.replace("-", "") if context is None else context[3:35]


def run_span_id(job_id: str, epoch: int) -> str:
    return hashlib.sha256(f"{job_id} {epoch}".encode()).hexdigest()[:16]


def run_context(job_id: str, context: str | None, epoch: int) -> str:
    """The trace context of one run of a job: its own span, in the job's trace."""
    flags, state = ("01", "") if context is None else (context[53:55], context[56:])
    return joined(trace_id_of(job_id, context), run_span_id(job_id, epoch), flags, state)
