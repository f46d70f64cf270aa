"""Which spans a job's life has, how they hang together, and that they say nothing of what is in the job."""

import asyncio
import logging
import threading
import time
from collections.abc import Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

from ficha import Ficha, JobLogFilter, tracing
from ficha.environment import SettingError
from ficha.trace_context import checked, current, of_request, run_span_id
from tests.tracing import stepping
from tests.tracing.conftest import Kept

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    return span.get_span_context().span_id


def shop(database: str) -> Ficha:
    app = Ficha(database, sweep_by_itself=False)

    @app.tool(attempts=2, backoff=0.001)
    async def flaky(job, secret: str) -> str:
        with trace.get_tracer("theirs").start_as_current_span("their own"):
            await job.step("once", str.upper, secret)
        if job.attempt == 1:
            raise ValueError(secret)
        return secret

    @app.tool()
    def plain(job) -> str | None:
        return job.step("inside", current)

    return app


@pytest.mark.req("B9")
async def test_a_job_is_one_trace_from_its_submit_over_all_its_runs(url: str, spans: Kept) -> None:
    async with shop(url) as app:
        await app.open_account("ana", credits=10)
        token = of_request.set(PARENT)
        receipt = await app.submit("flaky", {"secret": "hunter2"}, account="ana", correlation_id="c-1")
        of_request.reset(token)
        await app.run_worker(burst=True, due_within_s=5, worker="w-1")
        assert (await app.job(receipt.job_id)).status == "completed"
        assert (await app.job(receipt.job_id)).traceparent is not None

    submit = spans.one("submit flaky")
    assert parent_of(submit) == int(PARENT[36:52], 16)
    assert {f"{span.get_span_context().trace_id:032x}" for span in spans.all()} == {PARENT[3:35]}
    first, second = spans.named("run flaky")
    waits = spans.named("wait in line")
    assert [parent_of(span) for span in (first, second, *waits)] == [id_of(submit)] * 4
    assert [id_of(run) for run in (first, second)] == [int(run_span_id(receipt.job_id, n), 16) for n in (1, 2)]
    assert [link.context.span_id for link in second.links] == [id_of(first)]
    assert not first.links
    # The first run stored the step, so the second has none.
    assert parent_of(spans.one("step once")) == id_of(first)
    assert [parent_of(span) for span in spans.named("finish flaky")] == [id_of(first), id_of(second)]

    told = dict(first.attributes or {})
    assert told["messaging.system"] == "ficha"
    assert told["messaging.message.id"] == receipt.job_id
    assert told["messaging.message.conversation_id"] == "c-1"
    assert (told["messaging.client.id"], told["ficha.attempt"], told["ficha.outcome"]) == ("w-1", 1, "queued")
    assert (second.attributes or {})["ficha.outcome"] == "completed"
    assert [run.status.status_code for run in (first, second)] == [StatusCode.ERROR, StatusCode.UNSET]
    assert [span.kind for span in (submit, first, waits[0])] == [
        SpanKind.PRODUCER,
        SpanKind.CONSUMER,
        SpanKind.INTERNAL,
    ]
    for wait, run in zip(waits, (first, second), strict=True):
        assert wait.start_time is not None
        assert wait.end_time is not None
        assert wait.start_time <= wait.end_time <= time.time_ns()
        assert run.start_time is not None
        assert run.end_time is not None
        assert run.start_time <= run.end_time
    # The second wait begins when the first run is over, not at the submit.
    assert (waits[1].start_time or 0) >= (waits[0].end_time or 0)
    assert "hunter2" not in "".join(span.to_json() for span in spans.all())


async def test_a_trace_that_is_not_sampled_makes_no_spans(spans: Kept) -> None:
    async with shop("memory:") as app:
        await app.open_account("ana", credits=10)
        token = of_request.set(PARENT[:-1] + "0")
        receipt = await app.submit("plain", account="ana")
        of_request.reset(token)
        await app.run_worker(burst=True)
        traceparent = (await app.job(receipt.job_id)).traceparent
    assert traceparent is not None
    assert (traceparent[:35], traceparent[-2:]) == (PARENT[:35], "00")
    assert spans.all() == []


async def test_a_job_without_a_trace_is_a_trace_of_its_own(spans: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server exports nothing and the worker does: the trace has the job's id."""
    async with shop("memory:") as app:
        await app.open_account("ana", credits=10)
        with monkeypatch.context() as off:
            off.setattr("ficha.tracing.active", None)
            receipt = await app.submit("plain", account="ana")
        await app.run_worker(burst=True)
        job = await app.job(receipt.job_id)
    assert job.traceparent is None
    ids = {f"{span.get_span_context().trace_id:032x}" for span in spans.all()}
    assert ids == {receipt.job_id.replace("-", "")}
    run = spans.one("run plain")
    assert parent_of(run) is None
    # What a step of a plain function calls is within the step's span, although it runs in a thread.
    inside = spans.one("step inside")
    assert parent_of(inside) == id_of(run)
    assert checked(job.result) == f"00-{receipt.job_id.replace('-', '')}-{id_of(inside):016x}-03"


async def test_a_submit_in_a_span_of_the_callers_own_is_under_it(spans: Kept) -> None:
    async with shop("memory:") as app:
        await app.open_account("ana", credits=10)
        with trace.use_span(NonRecordingSpan(SpanContext(7, 9, False, TraceFlags(1)))):
            await app.submit("plain", account="ana")
            batch = await app.submit_batch([("plain", {})] * 3, account="ana")
        jobs = (await app.jobs(batch=batch.batch_id)).items
    assert parent_of(spans.one("submit plain")) == 9
    whole = spans.one("submit batch")
    assert (whole.attributes or {})["messaging.batch.message_count"] == 3
    assert {job.traceparent for job in jobs} == {f"00-{7:032x}-{id_of(whole):016x}-01"}


async def test_steps_of_a_process_and_of_a_shared_call_are_under_their_runs(spans: Kept) -> None:
    app = Ficha("memory:", sweep_by_itself=False)
    app.tool(name="counts", isolation="process")(stepping.steps_twice)

    @app.tool(jobs_per_call=2, linger_ms=0)
    async def together(jobs) -> list[None]:
        for job in jobs:
            await job.step("mine", asyncio.sleep, 0)
        return [None] * len(jobs)

    async with app:
        await app.open_account("ana", credits=10)
        apart = await app.submit("counts", account="ana")
        shared = [await app.submit("together", account="ana") for _ in range(2)]
        await app.run_worker(burst=True)
        assert (await app.job(apart.job_id)).status == "completed"
    by_run = {id_of(run): run.attributes["messaging.message.id"] for run in spans.named("run together")}
    assert {by_run[parent_of(span)] for span in spans.named("step mine")} == {one.job_id for one in shared}
    steps = [span for span in spans.all() if span.name.startswith("step ") and span.name != "step mine"]
    assert [span.name for span in steps] == ["step first", "step second"]
    assert {parent_of(span) for span in steps} == {id_of(spans.one("run counts"))}
    assert [span.status.status_code for span in steps] == [StatusCode.UNSET, StatusCode.ERROR]
    assert (steps[1].attributes or {})["error.type"] == "ValueError"


async def test_log_lines_name_the_current_span(spans: Kept) -> None:
    lines: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = lines.append  # type: ignore[method-assign]
    handler.addFilter(JobLogFilter())
    theirs = logging.getLogger("theirs")
    theirs.addHandler(handler)
    app = Ficha("memory:", sweep_by_itself=False)

    @app.tool()
    async def tells(job) -> None:
        theirs.warning("outside")
        await job.step("one", lambda: theirs.warning("inside"))

    try:
        async with app:
            await app.open_account("ana", credits=10)
            receipt = await app.submit("tells", account="ana")
            await app.run_worker(burst=True)
    finally:
        theirs.removeHandler(handler)
    outside, inside = (vars(line) for line in lines)
    run, step = spans.one("run tells"), spans.one("step one")
    assert (outside["job"], outside["span_id"]) == (receipt.job_id, f"{id_of(run):016x}")
    assert inside["span_id"] == f"{id_of(step):016x}"
    assert {outside["trace_id"], inside["trace_id"]} == {f"{run.get_span_context().trace_id:032x}"}


class Hanging(SpanExporter):
    """A receiver that takes the first spans and never answers."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.begun.set()
        self.released.wait()
        return SpanExportResult.FAILURE


async def test_spans_that_cannot_be_sent_are_bounded_and_hold_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "20")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    monkeypatch.setattr(tracing, "FLUSH_S", 0.05)
    exporter = Hanging()
    made = tracing.Tracing(exporter)
    monkeypatch.setattr(tracing, "active", made)
    monkeypatch.setattr(tracing, "steps", made)
    async with shop("memory:") as app:
        await app.open_account("ana", credits=100)
        jobs = [(await app.submit("plain", account="ana")).job_id for _ in range(20)]
        assert await app.run_worker(burst=True) == 20
        assert {(await app.job(job)).status for job in jobs} == {"completed"}
    assert exporter.begun.is_set()
    [processor] = made._provider._active_span_processor._span_processors
    assert len(processor._batch_processor._queue) == 20
    await made.close()
    exporter.released.set()


async def test_a_bad_endpoint_is_named_and_the_last_user_ends_the_export(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FICHA_OTLP_ENDPOINT", "localhost:4318")
    with pytest.raises(SettingError, match="FICHA_OTLP_ENDPOINT must be an http URL"):
        await Ficha("memory:").open()
    monkeypatch.setenv("FICHA_OTLP_ENDPOINT", "http://127.0.0.1:9")
    async with Ficha("memory:", sweep_by_itself=False) as first:
        async with Ficha("memory:", sweep_by_itself=False):
            assert tracing.active is not None
        assert tracing.active is not None
        assert first.is_open
    assert (tracing.active, tracing.steps) == (None, None)
