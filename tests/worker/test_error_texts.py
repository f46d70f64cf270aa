"""What of a handler's error is kept, and for whom: the job's owner or operators."""

import asyncio
from typing import Any

import pytest

from ficha import Cancel, FinalError, JobContext, UserError
from tests.worker import handlers
from tests.worker.in_process import app_on, run_one

HOST = "connect to db1.internal:5432 failed"


async def internal(job: JobContext) -> None:
    raise ConnectionError(HOST)


def internal_in_a_thread(job: JobContext) -> None:
    raise ConnectionError(HOST)


async def for_the_user(job: JobContext) -> None:
    raise UserError("your image is too small")


async def final(job: JobContext) -> None:
    raise FinalError("your image is forbidden")


async def wordless(job: JobContext) -> None:
    raise UserError


async def cancels(job: JobContext) -> Cancel:
    return Cancel("nobody wants it")


async def times_out(job: JobContext) -> None:
    await asyncio.Event().wait()


@pytest.mark.long_on("postgresql")
@pytest.mark.req("A4")
@pytest.mark.parametrize(
    ("handler", "error", "user_error", "options"),
    [
        (internal, HOST, None, {}),
        (internal_in_a_thread, HOST, None, {}),
        (internal, HOST, None, {"fatal": ConnectionError}),
        (for_the_user, "your image is too small", "your image is too small", {}),
        (final, "your image is forbidden", "your image is forbidden", {}),
        (wordless, "UserError", None, {}),
        (cancels, "nobody wants it", "nobody wants it", {}),
        (times_out, "timed out after 0.05 s", "timed out after 0.05 s", {"timeout": 0.05}),
    ],
)
async def test_the_owner_reads_only_what_the_tool_wrote_for_them(
    url: str, handler: Any, error: str, user_error: str | None, options: dict[str, Any]
) -> None:
    app = app_on(url)
    app.tool(name="tool", cost=5, **options)(handler)
    async with app:
        job = await run_one(app, "tool")

        assert job.error == error
        assert job.user_error == (user_error or f"The job failed for an internal reason; its id is {job.id}.")


async def test_the_traceback_is_kept_in_the_history_of_every_failed_run(url: str) -> None:
    app = app_on(url)
    app.tool(name="tool", attempts=2, backoff=0.001)(internal)
    async with app:
        job = await run_one(app, "tool")
        while job.finished_at is None:
            await app.sweep()
            await app.run_worker(burst=True)
            job = await app.job(job.id)

        events = {event.kind: event.data for event in await app.events(job=job.id)}
        for kind in ("retried", "failed"):
            assert "in internal" in events[kind]["traceback"]
            assert events[kind]["error"] == HOST
            assert "user_error" not in events[kind]


async def test_a_child_process_tells_for_whom_its_error_is() -> None:
    app = app_on()
    app.tool(name="raises", isolation="process")(handlers.raises)
    async with app:
        plain = await run_one(app, "raises", {"kind": "plain"})
        receipt = await app.submit("raises", {"kind": "final"}, account="ana")
        await app.run_worker(burst=True)
        final = await app.job(receipt.job_id)

        assert (plain.error, plain.user_error[:25]) == ("the provider said no", "The job failed for an int")
        assert (final.error, final.user_error) == ("the image is forbidden", "the image is forbidden")
        told = (await app.events(job=plain.id))[-1].data
        assert "in raises" in told["traceback"]
