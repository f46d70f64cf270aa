"""Bulk acts in real processes: one is killed in the middle, and another goes on where it was."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.postgres_databases import migrated_database
from tests.support.processes import ForkedProcess
from tests.support.shop import balance, shop, state
from tests.support.waiting import until

JOBS = 12


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ficha.db'}"
        return
    with migrated_database(request.getfixturevalue("postgres_server")) as address:
        yield address


async def test_an_act_is_resumed_by_another_process_when_the_one_that_works_on_it_is_killed(url: str) -> None:
    async with shop(url, sweep_by_itself=False) as app:
        await app.open_account("ana", plan="open", credits=100)
        batch = await app.submit_batch([("upscale", {"image": "x"})] * JOBS, account="ana")
        while leases := await app.claim("gpu", worker="w1", limit=JOBS):
            for lease in leases:
                await app.fail(lease, "no")
        begun = await app.acting("boss").begin_bulk_act("requeue", f"dead:yes batch:{batch.batch_id}", reason="why")
        with ExitStack() as stack:

            def started() -> ForkedProcess:
                process = ForkedProcess("tests.worker.bulk_process", [url])
                stack.callback(process.wait, 30)
                stack.callback(process.kill)
                return process

            async def has_done(count: int) -> bool:
                return (await app.bulk_act(begun.id)).done >= count

            first = started()
            await until(lambda: has_done(2))
            started()
            await until(lambda: has_done(3))
            first.send_signal(signal.SIGKILL)
            await until(lambda: has_done(JOBS))
        act = await app.bulk_act(begun.id)
        assert (act.total, act.done, act.failed) == (JOBS, JOBS, 0)
        again = [str(job.requeue_of) for job in (await state(app)).jobs.values() if job.requeue_of is not None]
        assert len(again) == len(set(again)) == JOBS
        assert await balance(app) == 100 - 5 * JOBS
        lines = [line for line in (await app.audit(limit=100)).items if line.act == "requeue"]
        assert (len(lines), {line.actor for line in lines}) == (JOBS, {"boss"})
        assert await app.verify() == []
