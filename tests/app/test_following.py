"""Waiting for a job and watching it in-process: every event once, in order, and the end."""

import asyncio
from typing import Any

import pytest

from ficha import EventView, Ficha, Happening, JobView, NotFound, Overloaded, Wait
from ficha.store.base import GetHistory, Query, Unavailable
from tests.support.shop import World, claim_one, shop
from tests.support.waiting import until

pytestmark = pytest.mark.long_on("postgresql")


async def watched(app: Ficha, job_id: str, after: int = 0) -> list[Happening]:
    return [happening async for happening in app.watch(job_id, after=after)]


def numbers(found: list[Happening]) -> list[int]:
    return [happening.number for happening in found if isinstance(happening, EventView)]


async def test_waiting_returns_the_job_as_it_ended(app: Ficha) -> None:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    waiting = asyncio.create_task(app.wait(job_id, timeout_s=60))
    lease = await claim_one(app)
    assert not waiting.done()
    await app.finish(lease, {"image": "y"})
    job = await waiting
    assert (job.id, job.status, job.result) == (job_id, "completed", {"image": "y"})
    assert await app.wait(job_id, timeout_s=0) == job


async def test_waiting_ends_in_time_and_leaves_the_job_alone(app: Ficha) -> None:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    with pytest.raises(TimeoutError, match=f"job {job_id} is still queued"):
        await app.wait(job_id, timeout_s=0.01)
    assert (await app.job(job_id)).status == "queued"


async def test_nobody_waits_for_a_job_that_is_not_there(app: Ficha) -> None:
    with pytest.raises(NotFound):
        await app.wait("0199a5b0-0000-7000-8000-000000000000")
    with pytest.raises(NotFound):
        await watched(app, "no job")


async def test_watching_gives_every_event_once_in_order_and_the_job_first_and_last(app: Ficha) -> None:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    watching = asyncio.create_task(watched(app, job_id))
    lease = await claim_one(app)
    await app.start(lease)
    for number in range(20):
        await app.note(lease, str(number))
    await app.finish(lease, {"image": "y"})
    found = await watching
    assert numbers(found) == [event.number for event in await app.events(job=job_id)] == [*range(1, 25)]
    jobs = [happening for happening in found if isinstance(happening, JobView)]
    assert [job.status for job in jobs][1:] == ["completed"]
    assert found[-1] == await app.job(job_id)


async def test_whoever_watches_again_goes_on_after_what_they_saw(app: Ficha) -> None:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    lease = await claim_one(app)
    seen: list[int] = []
    for turn in range(3):
        await app.note(lease, f"turn {turn}")
        async for happening in app.watch(job_id, after=seen[-1] if seen else 0):
            if isinstance(happening, EventView):
                seen.append(happening.number)
                if happening.kind == "log":
                    break
    await app.finish(lease)
    seen += numbers(await watched(app, job_id, after=seen[-1]))
    assert seen == [event.number for event in await app.events(job=job_id)]


async def test_a_job_that_has_ended_is_told_once(app: Ficha) -> None:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    await app.cancel(job_id)
    found = await watched(app, job_id)
    assert [type(happening) for happening in found] == [EventView, EventView, JobView]
    assert await watched(app, job_id, after=2) == found[-1:]


async def test_watching_tells_how_the_job_waits_when_it_is_back_in_the_queue(app: Ficha) -> None:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    lease = await claim_one(app)
    found: list[Happening] = []

    async def watch() -> None:
        async for happening in app.watch(job_id):
            found.append(happening)

    watching = asyncio.create_task(watch())
    await until(lambda: any(isinstance(happening, JobView) for happening in found))
    await app.hand_back(lease, "the worker stops")
    [wait] = await until(lambda: [happening for happening in found if isinstance(happening, Wait)])
    assert (wait.position, wait.waiting_for) == (1, "place")
    await app.cancel(job_id)
    await watching


async def test_whoever_waits_or_watches_is_told_that_the_process_shuts_down(world: World) -> None:
    app = await world.open()
    await app.open_account("ana", plan="open", credits=100)
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    tasks = [asyncio.create_task(app.wait(job_id)), asyncio.create_task(watched(app, job_id))]
    await until(lambda: len(app.engine.live._followers()) == 2)
    app.engine.live.close()
    for task in tasks:
        with pytest.raises(Overloaded, match="shutting down"):
            await task


async def test_a_database_that_is_away_for_a_moment_ends_no_watching(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ficha.operations.following.away_pause_s", lambda tries: 0.0)
    app = await world.open()
    await app.open_account("ana", plan="open", credits=100)
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    lease = await claim_one(app)
    read, failures = app.engine.store.read, iter(range(3))

    async def failing(query: Query[Any]) -> Any:
        if isinstance(query, GetHistory) and next(failures, None) is not None:
            raise Unavailable("away")
        return await read(query)

    monkeypatch.setattr(app.engine.store, "read", failing)
    waiting, watching = asyncio.create_task(app.wait(job_id)), asyncio.create_task(watched(app, job_id))
    await app.finish(lease)
    assert (await waiting).status == "completed"
    assert numbers(await watching) == [1, 2, 3, 4]


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
async def test_the_end_of_a_job_is_heard_of_in_another_application(url: str) -> None:
    async with shop(url) as here, shop(url) as there:
        await here.open_account("ana", plan="open", credits=100)
        job_id = (await here.submit("upscale", {"image": "x"}, account="ana")).job_id
        waiting = asyncio.create_task(here.wait(job_id, timeout_s=30))
        await there.finish(await claim_one(there), {"image": "y"})
        assert (await waiting).result == {"image": "y"}


async def test_a_watch_that_is_closed_leaves_no_follower_behind(app: Ficha) -> None:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    watching = app.watch(job_id)
    assert isinstance(await anext(watching), EventView)
    assert isinstance(await anext(watching), JobView)
    await watching.aclose()
    assert app.engine.live._followers() == []
    assert not app.queries.watch._watched
