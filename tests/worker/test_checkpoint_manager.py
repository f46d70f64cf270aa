"""CheckpointManager: checkpoints, leases and money for code that owns its own loop."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ficha import CheckpointManager, Ficha, FinalError, InvalidState, JobContext, LeaseLost, Pool
from ficha.store.connect import migrator_for


@contextmanager
def app_with_quotes(url: str, **settings: Any) -> Iterator[tuple[Ficha, list[str]]]:
    """An application, closed, and two jobs of `quote` in its database."""
    app = Ficha(url, **{"pools": [Pool("quotes")], "lease_s": 30.0} | settings)

    @app.tool(cost=5, pool="quotes", attempts=2, backoff=0.001, checkpoints=["FOUND", "PRICED"])
    async def quote(job: JobContext, product: str) -> None: ...

    async def submit() -> list[str]:
        async with app:
            await app.open_account("ana", credits=100)
            return [(await app.submit("quote", {"product": name}, account="ana")).job_id for name in ("lamp", "chair")]

    yield app, asyncio.run(submit())


def look(app: Ficha, job_id: str) -> Any:
    async def job() -> Any:
        async with app:
            assert await app.verify() == []
            return await app.job(job_id)

    return asyncio.run(job())


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/jobs.db"
    else:
        url = request.getfixturevalue("postgres_url")
        asyncio.run(migrator_for(url).migrate(migrator_for(url).migrations[-1].number))
        yield url


@pytest.mark.req("E7")
def test_code_with_its_own_loop_resumes_where_it_stopped(place: str) -> None:
    paid: list[str] = []
    with app_with_quotes(place) as (app, (job_id, _)):
        with CheckpointManager(app, job_id, worker="first") as manager:
            manager.start()
            assert (manager.can_resume, manager.resume_point, manager.job.payload) == (False, None, {"product": "lamp"})
            manager.save_checkpoint("FOUND", progress=30, data={"shops": 3})
            assert manager.job.step("price", paid.append, "price") is None
            manager.heartbeat()
        # The block was left with no end: the job went back to the queue at once.
        with CheckpointManager(app, job_id, worker="second") as manager:
            assert manager.can_resume
            manager.start()
            assert (manager.resume_point, manager.resume_data) == ("FOUND", {"shops": 3})
            manager.job.step("price", paid.append, "price")
            manager.save_checkpoint("PRICED", progress=90)
            assert manager.complete({"price": 7}).status == "completed"
            with pytest.raises(LeaseLost):
                manager.save_checkpoint("PRICED", progress=95)
        job = look(app, job_id)
        assert (job.status, job.result, job.progress, job.refunded) == ("completed", {"price": 7}, 100, 0)
        assert paid == ["price"]


def test_an_exception_fails_the_job_and_the_last_failure_refunds_it(place: str) -> None:
    with app_with_quotes(place) as (app, (job_id, _)):

        def search() -> None:
            with CheckpointManager(app, job_id) as manager:
                manager.start()
                raise ValueError("no such product")

        with pytest.raises(ValueError, match="no such product"):
            search()
        assert (look(app, job_id).status, look(app, job_id).attempts) == ("queued", 1)
        with CheckpointManager(app, job_id) as manager:
            manager.start(wait_s=5)
            manager.fail("the shop is closed", final=True)
        job = look(app, job_id)
        assert (job.status, job.error, job.refunded) == ("failed", "the shop is closed", 5)


def test_a_job_that_another_holds_is_refused_or_waited_for(place: str) -> None:
    with app_with_quotes(place) as (app, (job_id, _)), CheckpointManager(app, job_id, worker="holder") as holder:
        holder.start()
        with CheckpointManager(app, job_id, worker="other") as other:
            with pytest.raises(InvalidState, match="holder has it"):
                other.start()
            freed = threading.Timer(0.2, holder.fail, ("busy",))
            freed.start()
            other.start(wait_s=20)
            freed.join()
            other.complete()
        assert look(app, job_id).status == "completed"


def test_the_lease_is_renewed_and_a_cancelled_job_says_so(place: str) -> None:
    with (
        app_with_quotes(place, lease_s=0.9, heartbeat_s=0.1) as (app, (job_id, _)),
        CheckpointManager(app, job_id) as manager,
    ):
        manager.start()

        async def wait_and_cancel() -> None:
            async with app:
                first = (await app.job(job_id)).last_heartbeat_at
                async with asyncio.timeout(20):
                    while (await app.job(job_id)).last_heartbeat_at == first:  # noqa: ASYNC110 (only looks)
                        await asyncio.sleep(0.02)
                await app.cancel(job_id)

        asyncio.run(wait_and_cancel())
        with pytest.raises(LeaseLost):
            manager.heartbeat()
        assert manager.cancelled
        ended = manager.complete()
        assert (ended.status, ended.changed) == ("cancelled", False)
    assert look(app, job_id).status == "cancelled"


def test_calls_out_of_order_say_what_to_do(tmp_path: Any) -> None:
    with app_with_quotes(f"sqlite:///{tmp_path}/jobs.db") as (app, (job_id, _)):
        manager = CheckpointManager(app, job_id)
        with pytest.raises(RuntimeError, match="with CheckpointManager"):
            manager.start()
        with manager:
            for call in (manager.heartbeat, manager.complete, lambda: manager.save_checkpoint("FOUND")):
                with pytest.raises(RuntimeError, match="call start"):
                    call()
        assert look(app, job_id).status == "queued"


@pytest.mark.parametrize(
    ("raised", "status", "words"),
    [
        (ValueError("connect to db1 failed"), "queued", None),
        (FinalError("the product is unknown"), "failed", "the product is unknown"),
    ],
)
def test_an_error_that_leaves_the_block_is_final_and_for_the_owner_where_it_says_so(
    place: str, raised: Exception, status: str, words: str | None
) -> None:
    with app_with_quotes(place) as (app, (job_id, _)):

        def fails() -> None:
            with CheckpointManager(app, job_id) as manager:
                manager.start()
                raise raised

        with pytest.raises(type(raised)):
            fails()
        job = look(app, job_id)
        assert (job.status, job.user_error) == (status, words)
