"""Which trace a job belongs to: the submit's, stored with the job, and the same for every run."""

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from ficha import Ficha
from ficha.trace_context import of_request, run_context, run_span_id
from tests.support.shop import World

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.req("B9")
async def test_the_trace_of_a_submit_is_stored_with_its_job(world: World) -> None:
    app = await world.open()
    await app.open_account("ana", plan="open", credits=1_000)
    with trace.use_span(NonRecordingSpan(SpanContext(7, 9, False, TraceFlags(1)))):
        inside = await app.submit("anything", account="ana", idempotency_key="k")
    assert (await app.job(inside.job_id)).traceparent == f"00-{7:032x}-{9:016x}-01"
    token = of_request.set(f"{PARENT} a=1")
    try:
        from_request = await app.submit("anything", account="ana")
        repeated = await app.submit("anything", account="ana", idempotency_key="k")
        batch = await app.submit_batch([("anything", {})] * 2, account="ana")
    finally:
        of_request.reset(token)
    assert (await app.job(from_request.job_id)).traceparent == PARENT
    assert {job.traceparent for job in (await app.jobs(batch=batch.batch_id)).items} == {PARENT}
    # A repeat is the same submit, whichever trace it is part of.
    assert (repeated.job_id, repeated.idempotent_hit) == (inside.job_id, True)
    alone = await app.submit("anything", account="ana")
    assert (await app.job(alone.job_id)).traceparent is None

    [lease] = [one for one in await app.claim("cpu", limit=10, worker="w") if one.job_id == from_request.job_id]
    assert lease.claimed.job.spec.trace_context == f"{PARENT} a=1"


async def test_every_run_has_a_span_of_its_own_in_the_trace_of_the_submit(url: str) -> None:
    told: list[str] = []
    app = Ficha(url, sweep_by_itself=False)

    @app.tool(attempts=2, backoff=0.001)
    async def tells(job) -> None:
        told.append(job.traceparent)
        if job.attempt == 1:
            raise ValueError("again")

    async with app:
        await app.open_account("ana", credits=10)
        receipt = await app.submit("tells", account="ana", correlation_id=PARENT)
        await app.run_worker(burst=True, due_within_s=5)
    runs = [run_context(receipt.job_id, PARENT, epoch) for epoch in (1, 2)]
    assert told == runs
    assert told[0] == f"{PARENT[:35]}-{run_span_id(receipt.job_id, 1)}-01"
