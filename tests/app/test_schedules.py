"""Schedules: recurring jobs, each slot fired once, on every database."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from ficha import Ficha, JobContext, NotFound, Plan, Retention, ScheduleView
from ficha.core.commands import FireSchedule
from ficha.core.records import Schedule
from ficha.core.schedules import FREE
from ficha.engine import queries
from ficha.operations import ScheduleFirer
from tests.support.shop import World, balance, state
from tests.support.waiting import until

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
INSTANT = 1e-6
MONDAY = int(datetime(2026, 11, 16, 8, 0, tzinfo=UTC).timestamp()) * 1_000_000
"""08:00 in UTC, on a Monday."""


def at(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%m-%d %H:%M}"


def hourly(**options: Any) -> Any:
    """Declares one schedule: an upscale at every full hour."""

    def prepare(app: Ficha) -> None:
        app.cron("0 * * * *", name="hourly", **{"payload": {"image": "x"}, "account": "ana"} | options)(
            tool_of(app, "upscale")
        )

    return prepare


def tool_of(app: Ficha, name: str) -> Any:
    """A declared tool, as its decorator returned it."""
    from ficha.tool_calls import DeclaredTool

    return DeclaredTool(app, app.tools[name], app.tools[name].handler)


async def opened(world: World, prepare: Any, **settings: Any) -> Ficha:
    """An application at 08:00 that has seen its schedules, with an account that has 100 credits."""
    world.clock.now = MONDAY
    app = await world.open(prepare, **settings)
    await app.open_account("ana", plan="open", credits=100, exist_ok=True)
    await fire(app)
    return app


async def fire(app: Ficha) -> float:
    return await ScheduleFirer(app).fire()


async def one(app: Ficha, name: str = "hourly") -> ScheduleView:
    return next(schedule for schedule in await app.schedules() if schedule.name == name)


async def labels(app: Ficha) -> list[str]:
    """The slots that have a job, in order."""
    jobs = (await state(app)).jobs.values()
    return sorted(str(job.spec.correlation_id).removeprefix("cron:") for job in jobs)


async def test_each_slot_leads_to_one_charged_job_with_the_slots_own_key(world: World) -> None:
    app = await opened(world, hourly(payload=lambda slot: {"image": f"{slot:%H:%M}"}))
    assert await labels(app) == []
    shown = await one(app)
    assert (shown.state, at(shown.next_at), shown.last, shown.tool) == ("active", "11-16 09:00", None, "upscale")
    world.clock.advance(HOUR - INSTANT)
    assert await fire(app) == pytest.approx(1e-6)
    assert await labels(app) == []
    world.clock.advance(INSTANT)
    for _ in range(3):
        assert await fire(app) == 300.0
    assert await labels(app) == ["hourly:2026-11-16T09:00Z"]
    (job,) = (await app.jobs(include=["payload"])).items
    assert (job.payload, job.account, job.cost, await balance(app)) == ({"image": "09:00"}, "ana", 5, 95)
    keys = await app.idempotency_keys(account="ana")
    assert [key.key for key in keys] == ["cron:hourly:2026-11-16T09:00Z"]
    shown = await one(app)
    assert (shown.fired, shown.refused, shown.passed, at(shown.next_at)) == (1, 0, 0, "11-16 10:00")
    assert shown.last is not None
    assert (shown.last.job_id, at(shown.last.slot_at), shown.last.code) == (job.id, "11-16 09:00", None)
    assert await app.verify() == []


async def test_several_processes_race_for_each_slot_and_one_fires_it(world: World) -> None:
    prepare = hourly(missed="all")
    apps = [await opened(world, prepare) for _ in range(4)]
    for _ in range(3):
        world.clock.advance(HOUR)
        await asyncio.gather(*(fire(app) for app in apps for _ in range(2)))
    assert await labels(apps[0]) == [f"hourly:2026-11-16T{hour:02}:00Z" for hour in (9, 10, 11)]
    assert (await one(apps[0])).fired == 3
    assert await balance(apps[0]) == 100 - 15
    assert await apps[0].verify() == []


async def test_whoever_dies_in_the_middle_leaves_a_slot_fired_or_not_and_never_twice(world: World) -> None:
    app = await opened(world, hourly(missed="all"))
    world.clock.advance(3 * HOUR)
    store = app.engine.store
    real, calls = store.transact, 0

    async def dies(*args: Any, **options: Any) -> Any:
        """Whoever fires dies when its second commit took place, and never hears of it."""
        nonlocal calls
        done = await real(*args, **options)
        calls += any(isinstance(record, Schedule) for record in done.changes.keyed)
        if calls == 2:
            firing.cancel()
        return done

    store.transact = dies  # type: ignore[method-assign]
    firing = asyncio.create_task(fire(app))
    with pytest.raises(asyncio.CancelledError):
        await firing
    del store.transact  # type: ignore[method-assign]
    assert len(await labels(app)) == 2
    again = await world.open(hourly(missed="all"))
    await fire(again)
    assert await labels(again) == [f"hourly:2026-11-16T{hour:02}:00Z" for hour in (9, 10, 11)]
    assert await balance(again) == 100 - 15


@pytest.mark.parametrize(
    ("missed", "late", "fired", "passed"),
    [
        ("skip", 59, ["11:00"], 2),
        ("skip", 60, [], 3),
        ("once", 1_800, ["11:00"], 2),
        ("all", 1_800, ["09:00", "10:00", "11:00"], 0),
    ],
)
async def test_slots_that_were_missed_are_made_up_for_as_declared(
    world: World, missed: Any, late: int, fired: list[str], passed: int
) -> None:
    app = await opened(world, hourly(missed=missed))
    world.clock.advance(3 * HOUR + late)
    await fire(app)
    assert await labels(app) == [f"hourly:2026-11-16T{hour}Z" for hour in fired]
    shown = await one(app)
    assert (shown.passed, at(shown.next_at)) == (passed, "11-16 12:00")
    lines = [line for line in (await app.audit()).items if line.act == "schedule_missed"]
    assert [(line.actor, line.target, line.details) for line in lines] == (
        [("system", "schedule hourly", {"slots": passed})] if passed else []
    )


async def test_all_missed_slots_are_bounded(world: World) -> None:
    app = await opened(world, hourly(missed="all", missed_max=2))
    world.clock.advance(4 * HOUR)
    await fire(app)
    assert await labels(app) == ["hourly:2026-11-16T11:00Z", "hourly:2026-11-16T12:00Z"]
    assert (await one(app)).passed == 2


async def test_a_refusal_is_told_and_the_next_slot_comes_as_ever(world: World) -> None:
    app = await opened(world, hourly())
    await app.adjust("ana", -97, reason="spent")
    world.clock.advance(HOUR)
    await fire(app)
    shown = await one(app)
    assert (shown.fired, shown.refused, at(shown.next_at)) == (0, 1, "11-16 10:00")
    assert shown.last is not None
    assert (shown.last.code, shown.last.job_id) == ("INSUFFICIENT_CREDITS", None)
    assert "has 3 credits and needs 5" in str(shown.last.message)
    (line,) = [line for line in (await app.audit()).items if line.act == "schedule_refused"]
    assert (line.target, line.details["code"]) == ("schedule hourly", "INSUFFICIENT_CREDITS")
    await fire(app)
    assert (await one(app)).refused == 1
    await app.grant("ana", 10, reason="paid")
    world.clock.advance(HOUR)
    await fire(app)
    assert await labels(app) == ["hourly:2026-11-16T10:00Z"]
    last = (await one(app)).last
    assert last is not None
    assert last.code is None


async def test_a_payload_function_that_fails_is_a_refusal_too(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def broken(slot: datetime) -> dict[str, Any]:
        return {"scale": "no number"} if slot.hour == 9 else {}["missing"]

    app = await opened(world, hourly(payload=broken))
    for words in ("does not fit", "raised KeyError"):
        world.clock.advance(HOUR)
        with caplog.at_level(logging.CRITICAL):
            await fire(app)
        last = (await one(app)).last
        assert last is not None
        assert last.code == "INVALID_PAYLOAD"
        assert words in str(last.message)
    assert await labels(app) == []


async def test_free_jobs_belong_to_an_account_without_limits(world: World) -> None:
    app = await opened(world, hourly(account=None, missed="all"), plans=[Plan("open", max_active=1, per_hour=1)])
    world.clock.advance(3 * HOUR)
    await fire(app)
    jobs = (await app.jobs(account=FREE)).items
    assert [(job.cost, job.status) for job in jobs] == [(0, "queued")] * 3
    assert await balance(app) == 100
    assert (await app.account(FREE)).balance == 0
    assert (await one(app)).account is None
    assert await app.verify() == []
    for given in app.open_account("eve", plan=FREE), app.change_plan("ana", FREE):
        with pytest.raises(NotFound, match=r"declared are: open\."):
            await given


async def test_a_paused_schedule_lets_its_slots_pass(world: World) -> None:
    app = await opened(world, hourly(missed="all"))
    acting = app.acting("boss")
    assert (await acting.pause_schedule("hourly")).state == "paused"
    world.clock.advance(2 * HOUR + INSTANT)
    await fire(app)
    shown = await one(app)
    assert (shown.state, shown.next_at, shown.fired) == ("paused", None, 0)
    assert at((await acting.resume_schedule("hourly")).next_at) == "11-16 11:00"
    await acting.resume_schedule("hourly")
    await fire(app)
    assert await labels(app) == []
    world.clock.advance(HOUR)
    await fire(app)
    assert await labels(app) == ["hourly:2026-11-16T11:00Z"]
    lines = [(line.actor, line.act, line.details) for line in reversed((await app.audit()).items)]
    assert lines == [
        ("boss", "pause_schedule", {}),
        ("boss", "resume_schedule", {}),
        ("boss", "resume_schedule", {"changed": False}),
    ]


async def test_run_now_submits_beside_the_slots(world: World) -> None:
    app = await opened(world, hourly())
    await app.pause_schedule("hourly")
    made = await app.acting("boss").run_schedule("hourly", key="k1")
    again = await app.acting("boss").run_schedule("hourly", key="k1")
    assert (made.cost, again.job_id, again.idempotent_hit) == (5, made.job_id, True)
    shown = await one(app)
    assert (shown.state, shown.fired) == ("paused", 1)
    assert shown.last is not None
    assert (shown.last.job_id, shown.last.slot_at) == (made.job_id, None)
    await app.resume_schedule("hourly")
    world.clock.advance(HOUR)
    await fire(app)
    assert (await one(app)).fired == 2
    with pytest.raises(NotFound, match="declares no schedule 'other'"):
        await app.run_schedule("other")
    with pytest.raises(NotFound, match="no schedule 'other'"):
        await app.pause_schedule("other")
    acts = [line.act for line in (await app.audit(actor="boss")).items]
    assert acts == ["run_schedule", "run_schedule"]


async def test_a_schedule_that_is_no_longer_declared_is_shown_and_does_not_fire(world: World) -> None:
    await opened(world, hourly())

    def other(app: Ficha) -> None:
        app.cron("30 * * * *", account="ana", payload={"image": "x"})(tool_of(app, "upscale"))

    app = await world.open(other)
    await fire(app)
    world.clock.advance(2 * HOUR)
    await fire(app)
    gone, new = await app.schedules()
    assert (gone.name, gone.state, gone.next_at, gone.missed) == ("hourly", "gone", None, None)
    assert (new.name, new.state, new.fired, new.passed) == ("upscale", "active", 1, 1)
    assert await labels(app) == ["upscale:2026-11-16T09:30Z"]
    with pytest.raises(NotFound):
        await app.run_schedule("hourly")


async def test_other_times_count_from_when_they_are_declared(world: World) -> None:
    await opened(world, hourly(missed="all"))
    world.clock.advance(DAY)

    def every_minute(app: Ficha) -> None:
        app.cron("* * * * *", name="hourly", account="ana", payload={"image": "x"}, missed="all")(
            tool_of(app, "upscale")
        )

    app = await world.open(every_minute)
    await fire(app)
    assert await labels(app) == []
    world.clock.advance(MINUTE)
    await fire(app)
    assert await labels(app) == ["hourly:2026-11-17T08:01Z"]
    # One that still runs with the old times does not fire in between.
    command = FireSchedule("hourly", "0 * * * *", "UTC", world.clock.now, world.clock.now + 1, "ana")
    world.clock.advance(1)
    outcome: Any = await app.engine.call(command)
    assert outcome.changed is False
    assert outcome.schedule == replace(outcome.schedule, cron="* * * * *")


async def test_a_slot_is_fired_when_it_comes_also_by_a_process_that_does_not_lead(world: World) -> None:
    world.clock.now = MONDAY
    leader = await world.open(sweep_by_itself=True, sweep_s=0.05)
    await until(lambda: leader.engine.sweeper._leads_until > 0)
    await leader.open_account("ana", plan="open", credits=100)
    world.clock.advance(HOUR - 0.05)
    app = await world.open(hourly(), sweep_by_itself=True, sweep_s=3_600)

    async def is_declared() -> bool:
        return "hourly" in (await state(app)).of(Schedule)

    await until(is_declared)  # a schedule has no slots before the moment that it is declared in
    world.clock.advance(0.05)

    async def is_fired() -> bool:
        return (await one(app)).fired == 1

    await until(is_fired)
    assert await labels(app) == ["hourly:2026-11-16T09:00Z"]
    assert leader.engine.sweeper.fire_schedules is None


async def test_slots_are_fired_on_the_back_of_calls_where_nothing_runs_in_between(world: World) -> None:
    app = await opened(world, hourly(), sweep_s=0.001)
    world.clock.advance(HOUR)
    app.engine.sweeper._next_slot_at = 0.0

    async def is_fired() -> bool:
        return (await one(app)).fired == 1

    await until(is_fired)


async def test_the_daily_sweep_begins_at_its_time_and_goes_on_until_nothing_is_left(world: World) -> None:
    world.clock.now = MONDAY
    app = await world.open(daily_at="09:30", time_zone="America/Sao_Paulo")
    sweeper, left = app.engine.sweeper, [True, True, False]
    done: list[int] = []

    async def daily() -> bool:
        done.append(world.clock.now)
        return left.pop(0)

    sweeper.daily = daily
    await sweeper._take_turn()
    world.clock.advance(4 * HOUR + 30 * MINUTE - INSTANT)
    await sweeper._take_turn()
    assert done == []
    world.clock.advance(INSTANT)
    for _ in range(5):
        await sweeper._take_turn()
    assert done == [MONDAY + 16_200_000_000] * 3
    world.clock.advance(DAY)
    left[:] = [False]
    await sweeper._take_turn()
    assert len(done) == 4


def test_a_bad_declaration_is_told_at_once() -> None:
    app = Ficha("memory:", plans=[Plan("open")])

    @app.tool
    async def draw(job: JobContext, n: int = 1) -> None: ...

    for words, options in (
        ("bad minute: '61'", {"expression": "61 * * * *"}),
        ("no time zone 'X'", {"tz": "X"}),
        ("missed must be one of skip, once, all, not 'never'", {"missed": "never"}),
        ("late_s must be", {"late_s": 0}),
        ("missed_max must be a whole number from 1 to 1000, not 1001", {"missed_max": 1_001}),
        ("missed_max must be a whole number from 1 to 1000, not 0", {"missed_max": 0}),
        ("payload must be a mapping", {"payload": 3}),
        ("does not fit tool draw", {"payload": {"n": "x"}}),
        ("account must be text", {"account": ""}),
        ("its name must be 1 to 200", {"name": "two words"}),
        ("its name must be 1 to 200", {"name": "x" * 201}),
    ):
        given: dict[str, Any] = {"expression": "0 9 * * *", **options}
        with pytest.raises(ValueError, match=f"schedule .*{words}"):
            app.cron(**given)(draw)

    async def later(slot: datetime) -> dict[str, Any]:
        return {}

    with pytest.raises(ValueError, match="write a plain function"):
        app.cron("0 9 * * *", payload=later)(draw)  # type: ignore[arg-type]
    assert app.cron("0 9 * * *", payload={"n": 2}, missed_max=1_000, name="x" * 200)(draw) is draw
    app.cron("0 9 * * *")(draw)
    with pytest.raises(ValueError, match="declared twice"):
        app.cron("0 10 * * *")(draw)
    assert {entry.tz for entry in app.cron_entries.values()} == {"UTC"}


def test_a_function_that_is_no_tool_becomes_one_for_the_application_alone() -> None:
    app = Ficha("memory:", time_zone="America/Sao_Paulo")

    @app.cron("0 9 * * 1-5")
    async def report(job: JobContext) -> str:
        return "done"

    assert (app.tools["report"].audience, app.cron_entries["report"].tz) == ("service", "America/Sao_Paulo")
    assert FREE in app.policy.plans


async def test_a_schedule_cannot_be_declared_while_the_application_is_open() -> None:
    async with Ficha("memory:") as app:
        with pytest.raises(RuntimeError, match="declared too late"):

            @app.cron("0 9 * * *")
            async def report(job: JobContext) -> None: ...


async def test_an_application_without_schedules_asks_nothing_more(world: World) -> None:
    app = await world.open()
    assert app.engine.sweeper.fire_schedules is None
    assert FREE not in app.policy.plans
    assert await app.schedules() == []


@pytest.mark.parametrize("wrong", ["4:00", "24:00", "04:60", 4, ""])
def test_the_time_of_the_daily_sweep_is_a_time_of_day(wrong: Any) -> None:
    with pytest.raises(ValueError, match="daily_at must be a time of day such as '04:00'"):
        Ficha("memory:", daily_at=wrong)
    with pytest.raises(ValueError, match="time_zone: there is no time zone 'X'"):
        Ficha("memory:", time_zone="X")


async def test_slots_of_a_zone_with_daylight_saving_are_told_to_the_payload_by_its_clock(world: World) -> None:
    seen: list[str] = []

    def payload(slot: datetime) -> dict[str, Any]:
        seen.append(f"{slot:%m-%d %H:%M%z}")
        return {"image": "x"}

    def nightly(app: Ficha) -> None:
        app.cron("30 1 * * *", tz="America/New_York", account="ana", payload=payload, missed="all", name="nightly")(
            tool_of(app, "upscale")
        )

    world.clock.now = int(datetime(2026, 10, 31, 12, tzinfo=UTC).timestamp()) * 1_000_000
    app = await world.open(nightly)
    await app.open_account("ana", plan="open", credits=100)
    await fire(app)
    for _ in range(24 * 4):
        world.clock.advance(30 * MINUTE)
        await fire(app)
    assert seen == ["11-01 01:30-0400", "11-02 01:30-0500"]


async def test_what_leaves_by_its_age_leaves_all_day_or_in_the_daily_sweep() -> None:
    kept = Retention(jobs=1)
    async with Ficha("memory:", retention=kept, sweep_by_itself=False) as app:
        assert (app.engine.sweeper.prune, app.engine.sweeper.daily) == (app.prune_step, None)
    async with Ficha("memory:", retention=kept, sweep_by_itself=False, daily_at="04:00") as app:
        assert (app.engine.sweeper.prune, app.engine.sweeper.daily) == (None, app.prune_step)
        assert app.engine.sweeper.daily_at == ("0 4 * * *", "UTC")


async def test_the_overview_names_schedules_that_no_live_process_fires(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "OVERVIEW_S", -1.0)
    app = await opened(world, hourly())
    bare = await world.open()

    async def found() -> list[str]:
        return [alert.text for alert in (await bare.overview("1h")).alerts if alert.code == "SCHEDULES_NOT_FIRED"]

    world.clock.advance(HOUR + 5 * MINUTE - INSTANT)
    assert await found() == []
    world.clock.advance(INSTANT)
    [text] = await found()
    assert text.startswith("No live process fires the schedule hourly.")
    await fire(app)
    assert await found() == []
    world.clock.advance(2 * HOUR)
    await bare.pause_schedule("hourly")
    assert await found() == []
