"""W3C trace context as text: what is taken from a request, what is ignored, and what is passed on."""

import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from ficha import trace_context as tc

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
JOB = "0197f1c2-0000-7000-8000-000000000001"


def test_a_valid_header_is_taken_with_its_state() -> None:
    headers = [(b"traceparent", f" {PARENT}\t".encode()), (b"tracestate", b"a=1"), (b"tracestate", b"b=2")]
    assert tc.from_headers(headers) == f"{PARENT} a=1,b=2"
    assert tc.headers_of(f"{PARENT} a=1,b=2") == {"traceparent": PARENT, "tracestate": "a=1,b=2"}
    assert tc.headers_of(PARENT) == {"traceparent": PARENT}
    assert tc.from_headers([(b"accept", b"*/*"), (b"tracestate", b"a=1")]) is None


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert tc.checked("cc" + PARENT[2:] + "-what-the-future-brings") == PARENT
    assert tc.checked("cc" + PARENT[2:]) == PARENT


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "00",
        PARENT.upper(),
        PARENT + "-more",
        PARENT + "x",
        "cc" + PARENT[2:] + ".more",
        "ff" + PARENT[2:],
        PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        PARENT.replace("00f067aa0ba902b7", "0" * 16),
        PARENT.replace("b7-01", "bz-01"),
        PARENT[:-1],
        PARENT + "\n",
        "é" + PARENT[1:],
    ],
)
def test_a_bad_traceparent_is_ignored(bad: str) -> None:
    assert tc.checked(bad, "a=1") is None


def test_two_traceparents_are_ignored() -> None:
    assert tc.from_headers([(b"traceparent", PARENT.encode())] * 2) is None


def test_a_state_is_passed_on_up_to_its_limit_and_left_out_beyond() -> None:
    most = "a=" + "x" * (tc.STATE_CHARS - 2)
    assert tc.checked(PARENT, most) == f"{PARENT} {most}"
    assert tc.checked(PARENT, most + "x") == PARENT
    assert tc.checked(PARENT, "a=\x01") == PARENT


def test_the_span_of_a_run_follows_from_the_job_and_its_epoch() -> None:
    first, second = (tc.run_context(JOB, f"{PARENT} a=1", epoch) for epoch in (1, 2))
    assert first == f"00-{PARENT[3:35]}-{tc.run_span_id(JOB, 1)}-01 a=1"
    assert first != second
    assert tc.run_context(JOB, PARENT[:-1] + "0", 1).endswith("-00")
    assert tc.run_context(JOB, None, 1) == f"00-{JOB.replace('-', '')}-{tc.run_span_id(JOB, 1)}-01"
    assert tc.checked(tc.run_context(JOB, None, 1)) is not None


def test_the_current_span_goes_before_the_request() -> None:
    token = tc.of_request.set(PARENT)
    try:
        assert tc.current() == PARENT
        found = SpanContext(7, 9, False, TraceFlags(1), TraceState([("k", "v")]))
        with trace.use_span(NonRecordingSpan(found)):
            assert tc.current() == f"00-{7:032x}-{9:016x}-01 k=v"
    finally:
        tc.of_request.reset(token)
    assert tc.current() is None


def test_whoever_traces_nothing_loads_no_opentelemetry() -> None:
    program = """if True:
        import asyncio, sys
        from ficha import Ficha
        app = Ficha("memory:", sweep_by_itself=False)

        @app.tool()
        async def upper(job, text: str) -> str:
            return await job.step("up", str.upper, text)

        async def main():
            async with app:
                await app.open_account("ana", credits=1)
                receipt = await app.submit("upper", {"text": "a"}, account="ana")
                await app.run_worker(burst=True)
                assert (await app.job(receipt.job_id)).status == "completed"

        asyncio.run(main())
        import ficha.cli
        print([name for name in sys.modules if name.startswith("opentelemetry")])
        # FastAPI has a use of its own for OpenTelemetry's API; what makes and exports spans is another package.
        import ficha.server.application
        costly = ("opentelemetry.sdk", "opentelemetry.exporter", "google.protobuf")
        print([name for name in sys.modules if name.startswith(costly)])
    """
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["[]", "[]"], done
