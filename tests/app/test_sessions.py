"""Sessions of pages: a page that is left, or silent, leaves no job in the queue that nobody waits for."""

from typing import Any

import pytest

from ficha import Ficha, InvalidArgument, NotFound, QuotaExceeded, SweepReport
from ficha.core.records import PageSessions
from ficha.engine import sweeper
from ficha.validation import Limits
from tests.support.shop import World, balance, claim_one, state

pytestmark = pytest.mark.long_on("postgresql")


async def submit(app: Ficha, session: str | None = "s1", **options: Any) -> str:
    return (await app.submit("upscale", {"image": "x"}, account="ana", session=session, **options)).job_id


async def statuses(app: Ficha, *jobs: str) -> list[str]:
    return [(await app.job(job_id)).status for job_id in jobs]


@pytest.mark.req("A14")
async def test_a_page_that_was_left_leaves_no_job_queued(world: World, app: Ficha) -> None:
    running, queued, other = await submit(app), await submit(app), await submit(app, "s2")
    lease = await claim_one(app)
    left = await app.leave_session("s1", account="ana")
    assert (left.account, left.session, left.state) == ("ana", "s1", "left")
    world.clock.advance(30)
    await app.heartbeat([lease])
    world.clock.advance(30)
    world.clock.now -= 1
    assert not await app.sweep()
    world.clock.now += 1
    assert await app.sweep() == SweepReport({"cancelled": 1}, sessions=1)
    assert await statuses(app, running, queued, other) == ["starting", "cancelled", "queued"]
    assert (await app.job(queued)).error == "the page was left"
    assert await balance(app) == 1_000 - 10
    assert not await app.sweep()
    assert (await state(app)).of(PageSessions) == {}
    await app.finish(lease, result={})
    assert await statuses(app, running) == ["completed"]
    assert await app.verify() == []


@pytest.mark.req("A14")
async def test_a_page_that_is_silent_ends_by_the_databases_time(world: World, app: Ficha) -> None:
    job_id = await submit(app)
    for _ in range(3):
        assert (await app.stay_in_session("s1", account="ana")).state == "open"
        world.clock.advance(599)
        assert not await app.sweep()
    world.clock.advance(1)
    assert await app.sweep() == SweepReport({"cancelled": 1}, sessions=1)
    assert (await app.job(job_id)).error == "the page was silent for too long"


@pytest.mark.req("A14")
async def test_jobs_of_callers_who_do_not_take_part_are_never_cancelled(world: World, app: Ficha) -> None:
    jobs = [await submit(app), await submit(app, None)]
    world.clock.advance(30 * 86_400)
    assert not await app.sweep()
    assert await statuses(app, *jobs) == ["queued", "queued"]


@pytest.mark.req("A14")
async def test_whoever_comes_back_keeps_their_jobs(world: World, app: Ficha) -> None:
    first = await submit(app)

    async def stays() -> object:
        return await app.stay_in_session("s1", account="ana")

    async def follows() -> object:
        return await app.follow_in_session(await app.job(first), "s1")

    for comes_back in (stays, follows, lambda: submit(app)):
        await app.leave_session("s1", account="ana")
        world.clock.advance(59)
        await comes_back()
        world.clock.advance(60)
        assert not await app.sweep()
    await app.leave_session("s1", account="ana")
    job = await app.job(first)
    for other in (None, "s2"):
        await app.follow_in_session(job, other)
    world.clock.advance(60)
    assert (await app.sweep()).jobs == {"cancelled": 2}


@pytest.mark.req("A14")
async def test_both_times_are_settings_and_so_is_the_number_of_sessions(world: World) -> None:
    app = await world.open(leave_grace_s=5, silent_session_s=7.5, limits=Limits(open_sessions=2))
    await app.open_account("ana", plan="open", credits=10)
    assert app.policy.leave_grace_ms == 5_000
    jobs = [await submit(app, "s1"), await submit(app, "s2")]
    await app.leave_session("s1", account="ana")
    await app.stay_in_session("s2", account="ana")
    with pytest.raises(QuotaExceeded, match=r"Limits\.open_sessions"):
        await app.stay_in_session("s3", account="ana")
    world.clock.advance(5)
    assert (await app.sweep()).sessions == 1
    assert await statuses(app, *jobs) == ["cancelled", "queued"]
    world.clock.advance(2.5)
    assert (await app.sweep()).sessions == 1
    assert await statuses(app, *jobs) == ["cancelled", "cancelled"]


@pytest.mark.req("A14")
async def test_many_jobs_of_a_session_are_cancelled_in_steps(
    world: World, app: Ficha, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "SESSION_JOBS", 2)
    jobs = [await submit(app) for _ in range(5)]
    await app.leave_session("s1", account="ana")
    world.clock.advance(60)
    assert await app.sweep() == SweepReport({"cancelled": 5}, sessions=1)
    assert await statuses(app, *jobs) == ["cancelled"] * 5
    assert await balance(app) == 1_000
    assert await app.verify() == []


@pytest.mark.req("A14")
async def test_a_session_needs_a_name_and_an_account(app: Ficha) -> None:
    with pytest.raises(NotFound):
        await app.stay_in_session("s1", account="nobody")
    for bad in ("", "x" * 256, "a\x00b"):
        with pytest.raises(InvalidArgument):
            await app.leave_session(bad, account="ana")
    for name in ("leave_grace_s", "silent_session_s"):
        with pytest.raises(ValueError, match=name):
            Ficha("memory:", **{name: 0})
