"""Leases by name: what a worker elsewhere needs to hold is a job's id and an epoch."""

from __future__ import annotations

import pytest

from ficha import Ficha, InvalidArgument, InvalidState, JobContext, LeaseLost, LeaseName, NotFound
from ficha.ids import new_id
from tests.support.shop import World, claim_one

pytestmark = pytest.mark.long_on("postgresql")


async def named(app: Ficha, pool: str = "gpu") -> LeaseName:
    """A claim of which only the name is kept."""
    lease = await claim_one(app, pool)
    return LeaseName(lease.job_id, lease.epoch)


@pytest.mark.req("B4", "B5")
async def test_a_name_does_all_that_a_lease_does(world: World, app: Ficha) -> None:
    for _ in range(8):
        await app.submit("upscale", {"image": "x"}, account="ana")
    name = await named(app)
    world.clock.advance(10)
    (until,) = await app.heartbeat(name)
    assert until == await app.start(name)
    assert (await app.heartbeat([name, name])) == [until, until]
    assert await app.checkpoint(name, "HALF", progress=50, data={"page": 3}) == until
    assert await app.save_step(name, "download", [1]) == [1]
    assert await app.save_step(name, "download", [2]) == [1]
    assert await app.report(name, progress=60, partial={"a": 1}) == until
    assert await app.note(name, "so far so good") == until
    job = await app.job(name.job_id)
    assert (job.checkpoint, job.progress, job.partial, job.resume_data) == ("HALF", 60, {"a": 1}, {"page": 3})
    done = await app.finish(name, {"image": "y"}, delivered=1, of=1)
    assert (done.status, done.changed, done.new_balance) == ("completed", True, 960)

    assert (await app.fail(await named(app), "no", final=True)).status == "failed"
    assert (await app.retry(await named(app), 60, reason="busy")).status == "queued"
    assert (await app.accept(await named(app), "ref-1")).status == "running"
    assert (await app.give_up(await named(app), "no use")).status == "cancelled"
    assert (await app.time_out(await named(app))).status == "failed"
    assert (await app.hand_back(await named(app), "stopping")).status == "queued"
    first = await named(app)
    assert [done.status for done in await app.finish_many([(first, {})])] == ["completed"]
    assert await app.verify() == []


@pytest.mark.req("B5")
async def test_a_name_that_is_no_longer_right_is_refused_whatever_it_wants(world: World, app: Ficha) -> None:
    await app.submit("stubborn", {}, account="ana")
    old = await named(app, "cpu")
    world.clock.advance(60)
    await app.sweep()
    new = await named(app, "cpu")
    assert (old.job_id, new.epoch) == (new.job_id, old.epoch + 1)
    for wrong in (old, LeaseName(new.job_id, new.epoch + 1)):
        for call in (
            lambda name: app.checkpoint(name, "HALF"),
            lambda name: app.save_step(name, "a", 1),
            lambda name: app.report(name, progress=1),
            lambda name: app.note(name, "x"),
            lambda name: app.finish(name, 1),
            lambda name: app.fail(name, "x"),
        ):
            with pytest.raises(LeaseLost):
                await call(wrong)
        (refused,) = await app.heartbeat(wrong)
        assert isinstance(refused, LeaseLost)
    assert (await app.finish(new, 1)).status == "completed"


async def test_a_name_of_no_job_is_not_found(app: Ficha) -> None:
    nobody = LeaseName(new_id(), 1)
    for call in (app.checkpoint(nobody, "HALF"), app.note(nobody, "x"), app.finish(nobody, 1)):
        with pytest.raises(NotFound, match="there is no job"):
            await call
    with pytest.raises(NotFound, match="an id is a UUID"):
        LeaseName("42", 1)
    for epoch in (-1, 1.5, True, "1", 2**31):
        with pytest.raises(InvalidArgument, match="an epoch must be a whole number"):
            LeaseName(new_id(), epoch)  # type: ignore[arg-type]


@pytest.mark.req("E2")
async def test_declared_checkpoints_bind_a_name_too(world: World) -> None:
    app = await world.open()

    @app.tool(pool="cpu", checkpoints=["FETCHED", "PAINTED"])
    async def paint(job: JobContext) -> None: ...

    await app.open_account("ana", plan="open")
    await app.submit("paint", {}, account="ana")
    name = await named(app, "cpu")
    with pytest.raises(InvalidState, match="PAINTED"):
        await app.checkpoint(name, "PAINTED")
    with pytest.raises(InvalidArgument, match="OTHER"):
        await app.checkpoint(name, "OTHER")
    await app.checkpoint(name, "FETCHED", progress=40)
    await app.checkpoint(name, "PAINTED", progress=90)
    assert (await app.job(name.job_id)).checkpoint == "PAINTED"
