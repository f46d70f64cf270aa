"""Each built-in provider as a tool of an application: a worker starts the work at the simulator, call-backs come in,
and the job is finished once, with the right money."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ficha import Ficha, Refused
from ficha.providers import ProviderCall
from tests.providers.kinds import KINDS, Kind, task_of
from tests.support.provider_simulator import Received, Receiver, Simulated
from tests.support.waiting import until

OUR_SECRET = "the secret of the deployment under test"  # noqa: S105 (of a test)
PAID = [("grant", 100), ("charge", -5)]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@asynccontextmanager
async def studio(kind: Kind, simulator: Simulated, callbacks: Receiver) -> AsyncIterator[Ficha]:
    """An application in memory with a worker, whose call-backs `callbacks` takes."""
    folder = TemporaryDirectory()
    app = Ficha(
        "memory://",
        sweep_s=0.02,
        secret=OUR_SECRET,
        public_url=callbacks.url,
        files=f"file://{folder.name}",
        allow_addresses=("127.0.0.0/8",),
    )

    @app.provider_tool(kind.of(simulator, poll_s=600.0), cost=5, timeout=60, attempts=1)
    async def upscale(job: Any, image: str) -> ProviderCall:
        return kind.call(image, scale=2)

    with folder:
        async with app:
            await app.open_account("ana", credits=100)
            worker = asyncio.create_task(app.run_worker())
            try:
                yield app
                assert await app.verify() == []
            finally:
                worker.cancel()
                await asyncio.gather(worker, return_exceptions=True)


async def submitted(app: Ficha, picture: str) -> str:
    return (await app.submit("upscale", {"image": picture}, account="ana")).job_id


async def deliver(app: Ficha, received: Received) -> Any:
    """Hands a call-back on as the route does."""
    _, _, _, provider, token = received.path.split("/")
    return await app.receive_callback(provider, token, received.headers, received.body)


async def ended(app: Ficha, job_id: str) -> Any:
    async def look() -> Any:
        job = await app.job(job_id)
        return job if job.status in ("completed", "failed", "cancelled") else None

    return await until(look, what="the job has ended")


async def accepted(app: Ficha, job_id: str) -> str:
    async def look() -> str | None:
        return (await app.job(job_id)).provider_ref

    return await until(look, what="the provider has accepted the job")


async def money(app: Ficha) -> list[tuple[str, int]]:
    return [(entry.kind, entry.amount) for entry in reversed((await app.ledger("ana")).items)]


async def until_called(callbacks: Receiver, count: int) -> Received:
    return await until(lambda: callbacks.received[count - 1] if len(callbacks.received) >= count else None)


async def test_a_call_back_finishes_the_job_with_the_result(
    kind: Kind, simulator: Simulated, callbacks: Receiver, picture: str
) -> None:
    async with studio(kind, simulator, callbacks) as app:
        job_id = await submitted(app, picture)
        received = await until_called(callbacks, 1)
        signs = kind.of(simulator).signs_callbacks
        assert await deliver(app, received) == ("verified" if signs else "unsigned")
        job = await ended(app, job_id)
        assert (job.status, len(job.result["files"]), await money(app)) == ("completed", 1, PAID)
        # Who signs is believed; who does not is asked with our own key.
        assert bool(simulator.log("status")) is not signs
        assert await deliver(app, received) in ("verified", "unsigned")
        assert (await app.job(job_id)).status == "completed"
        assert [entry["key"] for entry in simulator.log("start")] == [f"{job_id}:0"]


async def test_a_failure_pays_back_and_says_the_providers_words(
    kind: Kind, simulator: Simulated, callbacks: Receiver, picture: str
) -> None:
    simulator.task(fail="the picture is too dark")
    async with studio(kind, simulator, callbacks) as app:
        job_id = await submitted(app, picture)
        await deliver(app, await until_called(callbacks, 1))
        job = await ended(app, job_id)
        assert (job.status, job.error) == ("failed", "the picture is too dark")
        assert await money(app) == [*PAID, ("refund", 5)]


async def test_a_cancel_is_told_to_the_provider(
    kind: Kind, simulator: Simulated, callbacks: Receiver, picture: str
) -> None:
    simulator.task(hold=True)
    async with studio(kind, simulator, callbacks) as app:
        job_id = await submitted(app, picture)
        ref = await accepted(app, job_id)
        await app.cancel(job_id)
        assert await asyncio.to_thread(simulator.until_over, task_of(ref)) == "cancelled"
        assert (await app.job(job_id)).status == "cancelled"
        assert await money(app) == [*PAID, ("refund", 5)]


async def test_a_forged_call_back_moves_no_money_and_the_true_one_does(
    kind: Kind, simulator: Simulated, callbacks: Receiver, picture: str
) -> None:
    simulator.task(hold=True)
    async with studio(kind, simulator, callbacks) as app:
        job_id = await submitted(app, picture)
        ref = await accepted(app, job_id)
        await asyncio.to_thread(simulator.callback, task_of(ref), verdict="succeeded", forge=True)
        forged = await until_called(callbacks, 1)
        if kind.of(simulator).signs_callbacks:
            with pytest.raises(Refused) as caught:
                await deliver(app, forged)
            assert caught.value.code == "UNAUTHENTICATED"
        else:
            asked = len(simulator.log("status"))
            await deliver(app, forged)
            await until(lambda: len(simulator.log("status")) > asked)
        assert (await app.job(job_id)).status == "running"
        simulator.finish(task_of(ref))
        await deliver(app, await until_called(callbacks, 2))
        assert (await ended(app, job_id)).status == "completed"
        assert await money(app) == PAID


async def test_a_call_back_of_other_work_changes_nothing(
    kind: Kind, simulator: Simulated, callbacks: Receiver, picture: str
) -> None:
    """A true call-back, sent to the address of another job."""
    simulator.task(hold=True)
    async with studio(kind, simulator, callbacks) as app:
        held = await submitted(app, picture)
        await accepted(app, held)
        (task,) = simulator.tasks()
        other = await submitted(app, picture)
        received = await until_called(callbacks, 1)
        path = task["callback_url"].removeprefix(callbacks.url)
        await deliver(app, received._replace(path=path))
        await deliver(app, received)
        assert (await ended(app, other)).status == "completed"
        assert (await app.job(held)).status == "running"
        assert [entry for entry in simulator.log("status") if entry["task_id"] == task["id"]] == []
        await app.cancel(held)
