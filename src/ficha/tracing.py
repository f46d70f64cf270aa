"""Spans for OpenTelemetry: what happened to a job, and when. No other module imports OpenTelemetry, and this one does
only while spans are exported.

`active` is None unless FICHA_OTLP_ENDPOINT is set and an application is open; code that would make a span checks it
first. A separate thread exports spans from a bounded queue: if the receiver is slow or unreachable, the oldest spans
are dropped, and jobs go on.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from . import trace_context
from .core.records import Job, JobSpec
from .environment import SettingError, setting
from .extras import needs_extra
from .futures import wake
from .process_name import service_name
from .redaction import redacted
from .version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.trace import Link
    from opentelemetry.trace import Span as Span

FLUSH_S: Final = 5.0
"""The longest that closing the application waits for the export of the last spans."""
SpanRole = Literal["INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"]
Attributes = Mapping[str, str | int | float | bool]

_given_ids: ContextVar[tuple[int, int] | None] = ContextVar("ficha_given_ids", default=None)
"""The trace id and the span id of the span that is being made; None if both are random, 0 for a random span id."""


class StepSpans(Protocol):
    """Makes the spans of steps: in this process, or in the worker to which this child process reports them."""

    def step(self, run: str, name: str) -> Any:
        """A context in which the step runs. `run` is the trace context of the job's run."""


active: Tracing | None = None
"""Exports the spans of this process; None if they are not exported."""
steps: StepSpans | None = None
"""Makes the spans of steps; also set in a child process of a worker that exports spans."""
_users = 0


def acquire(endpoint: str) -> None:
    """Starts the export of spans, unless this process exports them already."""
    global active, steps, _users
    if not endpoint.startswith(("http://", "https://")):
        raise SettingError(f"FICHA_OTLP_ENDPOINT must be an http URL such as http://localhost:4318, not {endpoint!r}")
    if active is None:
        active = steps = Tracing(otlp_exporter(endpoint))
    _users += 1


async def release() -> None:
    """Ends the export after its last user, once the last spans are exported, or after `FLUSH_S`."""
    global active, steps, _users
    _users -= 1
    if _users == 0 and active is not None:
        ending, active, steps = active, None, None
        await ending.close()


def import_exporter() -> None:
    """Imports the parts of OpenTelemetry that `acquire` needs, if this process will export spans."""
    if setting(os.environ, "FICHA_OTLP_ENDPOINT") is not None:
        with needs_extra("otel"):
            import opentelemetry.exporter.otlp.proto.http.trace_exporter
            import opentelemetry.sdk.trace.export  # noqa: F401 (only imported)


def otlp_exporter(endpoint: str) -> SpanExporter:
    """Sends spans to `endpoint` with OTLP over HTTP. Headers, certificates, compression and timeouts are the standard
    variables `OTEL_EXPORTER_OTLP_…`."""
    with needs_extra("otel"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    base = endpoint.rstrip("/")
    return OTLPSpanExporter(endpoint=base if base.endswith("/v1/traces") else f"{base}/v1/traces")


class Tracing:
    """Makes spans, and passes them to an exporter."""

    def __init__(self, exporter: SpanExporter) -> None:
        with needs_extra("otel"):
            from opentelemetry import context, trace
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._context, self._trace = context, trace
        ours = {"service.name": service_name(), "service.version": __version__, "host.name": socket.gethostname()}
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word.
        resource = Resource.create(ours).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, id_generator=_ids(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("ficha")

    async def close(self) -> None:
        """Exports the last spans, in a thread that delays neither the loop nor the end of the process any longer."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def shut_down() -> None:
            self._provider.shutdown()
            try:
                loop.call_soon_threadsafe(wake, ended)
            except RuntimeError:
                return  # Nobody waits for it any more: the loop is closed.

        threading.Thread(target=shut_down, name="ficha spans", daemon=True).start()
        await asyncio.wait([ended], timeout=FLUSH_S)

    # Any span

    def add(
        self,
        name: str,
        parent: str | None,
        start_ns: int,
        end_ns: int | None = None,
        *,
        role: SpanRole = "INTERNAL",
        attributes: Attributes | None = None,
        error: str | None = None,
        link: str | None = None,
        trace_id: str | None = None,
    ) -> None:
        """Adds a span of something that is over."""
        links = [] if link is None else [self._link(link)]
        span = self._start(name, parent, role, attributes, links=links, start_ns=start_ns, trace_id=trace_id)
        if error is not None:
            self._fail(span, error)
        span.end(end_ns)

    @contextmanager
    def within(
        self, name: str, parent: str | None, *, role: SpanRole = "INTERNAL", attributes: Attributes | None = None
    ) -> Iterator[Span]:
        """A span of the block, which is OpenTelemetry's current span meanwhile."""
        span = self._start(name, parent, role, attributes)
        # OpenTelemetry's own recording would keep the error's message, which may hold anything.
        with self._trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield span
            except BaseException as error:
                self._fail(span, type(error).__name__)
                raise

    def ids(self) -> dict[str, str]:
        """The current trace and span, for the log."""
        found = self._trace.get_current_span().get_span_context()
        return {"trace_id": f"{found.trace_id:032x}", "span_id": f"{found.span_id:016x}"} if found.is_valid else {}

    # Spans of jobs

    @contextmanager
    def submit(self, name: str) -> Iterator[Span]:
        """The span of a submit; jobs that are made meanwhile belong to its trace."""
        attributes = {"messaging.operation.name": "submit", "messaging.operation.type": "send", **_SYSTEM}
        with self.within(f"submit {name}", trace_context.current(), role="PRODUCER", attributes=attributes) as span:
            if (made := trace_context.made_in_request.get()) is not None:
                made.append(f"{span.get_span_context().trace_id:032x}")
            yield span

    def begin_run(self, job: Job, worker: str) -> Span:
        """The span of a run that begins now. It is ended by `end_run`. A repeated run is linked to the one before."""
        before = trace_context.run_context(job.id, job.spec.trace_context, job.epoch - 1)
        return self._start(
            f"run {job.spec.tool}",
            job.spec.trace_context,
            "CONSUMER",
            {
                **attributes_of(job.id, job.spec, job.attempts + 1, job.epoch),
                "messaging.operation.name": "run",
                "messaging.operation.type": "process",
                "messaging.client.id": worker,
            },
            links=[self._link(before)] if job.epoch > 1 else [],
            trace_id=trace_context.trace_id_of(job.id, job.spec.trace_context),
            span_id=trace_context.run_span_id(job.id, job.epoch),
        )

    def enter(self, span: Span) -> None:
        """Makes the span the current one of this task, until the task ends."""
        self._context.attach(self._trace.set_span_in_context(span))

    def end_run(self, span: Span, outcome: str, error: str | None = None) -> None:
        """Ends the span of a run. `outcome` is the job's status, or why there is none."""
        if span.is_recording():
            span.set_attribute("ficha.outcome", outcome)
            if error is not None:
                self._fail(span, error)
            span.end()

    def waited(self, job: Job, since_at: int, until_at: int) -> None:
        """The span of a job's wait, by the database's clock (microseconds)."""
        self.add(
            "wait in line",
            job.spec.trace_context,
            since_at * 1_000,
            max(since_at, until_at) * 1_000,
            attributes=attributes_of(job.id, job.spec, job.attempts + 1, job.epoch),
            trace_id=trace_context.trace_id_of(job.id, job.spec.trace_context),
        )

    @contextmanager
    def step(self, run: str, name: str) -> Iterator[Span]:
        """The span of a step. Its parent is the current span if that is in the run's trace, else the run's span."""
        found = self._trace.get_current_span().get_span_context()
        parent = trace_context.current() if f"{found.trace_id:032x}" == run[3:35] else run
        with self.within(f"step {name}", parent, attributes={"ficha.step": name}) as span:
            yield span

    # How a span is made

    def _start(
        self,
        name: str,
        parent: str | None,
        role: SpanRole,
        attributes: Attributes | None,
        *,
        links: list[Link] | None = None,
        start_ns: int | None = None,
        trace_id: str | None = None,
        span_id: str | None = None,
    ) -> Span:
        given = None if trace_id is None else (int(trace_id, 16), 0 if span_id is None else int(span_id, 16))
        token = _given_ids.set(given)
        try:
            return self._tracer.start_span(
                name,
                self._context_of(parent),
                kind=self._trace.SpanKind[role],
                attributes=attributes,
                links=links,
                start_time=start_ns,
            )
        finally:
            _given_ids.reset(token)

    def _context_of(self, parent: str | None) -> Context:
        empty = self._context.Context()
        if parent is None:
            return empty
        return self._trace.set_span_in_context(self._trace.NonRecordingSpan(self._span_context(parent)), empty)

    def _span_context(self, text: str) -> Any:
        state = self._trace.TraceState.from_header([text[56:]]) if len(text) > 56 else None
        flags = self._trace.TraceFlags(int(text[53:55], 16))
        return self._trace.SpanContext(int(text[3:35], 16), int(text[36:52], 16), True, flags, state)

    def _link(self, text: str) -> Link:
        return self._trace.Link(self._span_context(text))

    def _fail(self, span: Span, error: str) -> None:
        span.set_attribute("error.type", redacted(error)[:200])
        span.set_status(self._trace.StatusCode.ERROR)


_SYSTEM: Final = {"messaging.system": "ficha"}


def attributes_of(job_id: str, spec: JobSpec, attempt: int, epoch: int) -> dict[str, str | int]:
    """The attributes of every span of a job, with names of OpenTelemetry's messaging conventions where there are such.
    They never tell the job's content or account."""
    return {
        **_SYSTEM,
        "messaging.destination.name": spec.pool,
        "messaging.message.id": job_id,
        "messaging.message.conversation_id": spec.correlation_id or job_id,
        "ficha.tool": spec.tool,
        "ficha.attempt": attempt,
        "ficha.epoch": epoch,
    }


def since(monotonic_s: float) -> int:
    """The time of this process's clock at a moment of its monotonic clock, in nanoseconds."""
    return time.time_ns() - int((time.monotonic() - monotonic_s) * 1e9)


def _ids() -> IdGenerator:
    """Generates random ids, except for spans whose ids are given."""
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class GivenIds(RandomIdGenerator):
        def generate_span_id(self) -> int:
            given = _given_ids.get()
            return given[1] if given is not None and given[1] else super().generate_span_id()

        def generate_trace_id(self) -> int:
            given = _given_ids.get()
            return given[0] if given is not None else super().generate_trace_id()

    return GivenIds()
