"""Queries over many jobs: waiting jobs, statistics, figures added up, and the whole state in parts."""

from __future__ import annotations

from msgspec.structs import replace

from ...core import commands as c
from ...core.dataset import State
from ...core.figures import STEPS, rollup_key, total
from ...core.invariants import violations
from ...core.outcomes import Claimed, ClaimedJob, Folded
from ...core.policy import HOUR, SECOND
from ...core.records import Delivery, Figures, Histogram, Leased, Measures, Parked, PendingHook, QueueCount, Ready
from ...core.snapshot import Changes
from ...store.base import (
    AlertCounts,
    Backlog,
    FigurePoint,
    GetAlertCounts,
    GetBacklog,
    GetFigurePoint,
    GetQueueCounts,
    GetState,
    GetStats,
    GetTotal,
    GetWaiting,
    ListFigures,
    ListOldRollups,
    ListPoolTimes,
    ListRollups,
    ListWorkersSeen,
    PoolTimes,
    QueueCounts,
    Stats,
    Waiting,
)
from ...store.waiting_columns import Key, Lines
from ..comparing import comparable
from ..driver import Driver
from .scenes import finish, lease, new_job, one_in_each_place, open_house, see, submit


class FigureConformance:
    """Waiting, statistics, figures, state."""

    async def test_who_waits_is_told_per_pool_and_per_account_in_claim_order(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        for account in ("bob", "eva", "ana"):
            for priority in (0, 5, -5, -100, 0):
                await submit(driver, account, priority=priority, pool="cpu" if priority else "gpu")
        ready, parked = _who_waits(driver)
        assert (set(ready), set(parked)) == ({"cpu", "gpu"}, {"bob"})
        waiting = await driver.read(GetWaiting())
        assert (waiting.ready.jobs(), waiting.parked.jobs()) == (ready, parked)

    async def test_who_waits_is_the_same_in_pages_of_any_size(self, driver: Driver) -> None:
        await open_house(driver)
        names = ["A", "a", "ana's", 'b"c', "z,z", "~", "é", "\N{OLD ITALIC LETTER A}", "\uffee"]
        await driver.run(*(c.OpenAccount(name, "free", 100) for name in names))
        # Many have the same rank; then the id decides the order, not the time of creation.
        owners = [*names, "ana", "ana", "ana", "bob"]
        for pool in ("gpu", "cpu"):
            ids = sorted((driver.new_id() for _ in owners), reverse=True)
            jobs = [new_job(job_id, pool=pool) for job_id in ids]
            await driver.run(*(c.Submit(owner, (job,)) for owner, job in zip(owners, jobs, strict=True)))
        await driver.run(*(c.Submit("bob", (new_job(driver.new_id()),)) for _ in range(5)))
        ready, parked = _who_waits(driver)
        assert (len(ready["gpu"]), len(ready["cpu"]), len(parked)) == (13, 3, 10)
        for page in (1, 2, 3, 5, 6, 13, 15, 16, 17, 1_000):
            waiting = await driver.read(GetWaiting(page))
            assert (waiting.ready.jobs(), waiting.parked.jobs()) == (ready, parked), f"in pages of {page}"

    async def test_nobody_waits_in_an_empty_store(self, driver: Driver) -> None:
        assert await driver.read(GetWaiting()) == Waiting(Lines(), Lines())
        assert await driver.read(GetStats(1_000)) == Stats({}, {}, 0, 0, None)
        assert await driver.read(GetState(texts=True)) == State()

    async def test_the_figures_count_active_jobs_dead_letters_and_checkpoints(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        stats = await driver.read(GetStats(3_600_000))
        assert stats.by_status == {"queued": 7, "starting": 1, "running": 2}
        assert stats.by_checkpoint == {"": 2, "HALF": 1}
        # Dead letters, without those that were discarded or requeued.
        assert (stats.stuck, stats.dead) == (0, 1)
        runs = [
            (job.finished_at - job.started_at) / 1_000_000
            for job in driver.expected.jobs.values()
            if job.status == "completed" and job.finished_at and job.started_at
        ]
        assert len(runs) == 2
        assert stats.avg_run_s is not None
        assert abs(stats.avg_run_s - sum(runs) / len(runs)) < 1e-6

    async def test_stuck_are_the_leases_whose_last_heartbeat_is_older(self, driver: Driver) -> None:
        await open_house(driver)
        silent, lively = await lease(driver), await lease(driver)
        outside = await lease(driver)
        await finish(driver, outside, c.AcceptedByProvider("ref"))
        driver.clock.advance(1)
        await driver.run(c.Heartbeat(lively.job.id, 1))
        for since_s, stuck in ((0.0, 0), (0.000_001, 1), (0.999_999, 1), (0.000_001, 2)):
            driver.clock.advance(since_s)
            assert (await driver.read(GetStats(1_000))).stuck == stuck
        await finish(driver, silent, c.Completed("1"))
        assert (await driver.read(GetStats(1_000))).stuck == 1

    async def test_the_state_in_parts_covers_everything_once(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        await driver.run(c.Elect("sweeper", "a", 1_000), c.Reserve(driver.new_id(), "bob"), see("w1"))
        await driver.run(c.FoldFigures(0, 1, 5, ((0, Figures(charged=1)),)))
        await driver.run(*(c.OpenAccount(name, "pro", 3) for name in ("A", "~", "é", "zoë")))
        whole = driver.expected
        for limit in (1, 2, 3, 1_000):
            joined = State()
            after: str | None = None
            while (part := await driver.read(GetState(after, limit, texts=True))).accounts:
                assert len(part.accounts) <= limit
                assert violations(part) == []
                for name in ("pools", "keyed", "workers", "tallies"):
                    expected = getattr(whole, name)
                    if name == "keyed" and after is not None:
                        expected = {key: one for key, one in expected.items() if one.is_in_every_part}
                    assert comparable(getattr(part, name)) == comparable(expected), name
                _join(joined, part)
                assert after is None or min(part.accounts) > after
                after = max(part.accounts)
            assert comparable(joined) == comparable(whole), f"in parts of {limit}"

    async def test_a_part_of_the_state_holds_what_its_accounts_own_and_nothing_else(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        part = await driver.read(GetState(after="ana", limit=1, texts=True))
        assert set(part.accounts) == {"bob"}
        assert {job.account_id for job in part.jobs.values()} == {"bob"}
        assert set(part.payloads) == set(part.jobs)
        assert {entry.account_id for entry in part.entries} == {"bob"}
        assert {event.account_id for event in part.events} == {"bob"}
        assert part.contents == {}
        assert set((await driver.read(GetState(limit=1))).contents) == {("upscale", "same")}

    async def test_the_texts_of_the_state_are_left_out_unless_asked_for(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        unwrapped = await driver.read(GetState())
        assert (unwrapped.payloads, unwrapped.results, unwrapped.steps, unwrapped.events) == ({}, {}, {}, [])
        full = comparable(await driver.read(GetState(texts=True)))
        for part, value in comparable(unwrapped).items():
            if part not in ("payloads", "results", "steps", "events"):
                assert value == full[part], part
        assert violations(unwrapped) == []

    async def test_the_figures_of_commits_are_told_in_order_and_say_what_the_rows_say(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        told = await driver.read(ListFigures(limit=10_000))
        assert [one.number for one in told] == sorted({one.number for one in told})
        found = total(one.figures for one in told)
        jobs, entries = driver.expected.jobs.values(), driver.expected.entries
        assert sum(one.submitted for one in found.counts) == len(jobs)
        for status in ("completed", "failed", "cancelled"):
            assert sum(getattr(one, status) for one in found.counts) == sum(job.status == status for job in jobs)
        balances = sum(account.balance for account in driver.expected.accounts.values())
        assert found.granted - found.charged + found.refunded == balances == sum(entry.amount for entry in entries)
        for after, last, limit in ((0, 2**40, 2), (told[1].number, told[4].number, 10), (told[-1].number, 2**40, 9)):
            expected = [one for one in told if after < one.number <= last][:limit]
            assert await driver.read(ListFigures(after, last, limit)) == expected
        wanted = (told[2].number, told[0].number, told[-1].number + 10)
        assert await driver.read(ListFigures(among=wanted)) == [told[0], told[2]]
        assert {one.at for one in told} <= {entry.at for entry in entries} | {
            event.at for event in driver.expected.events
        }

    async def test_credits_without_a_job_have_figures(self, driver: Driver) -> None:
        await driver.run(c.OpenAccount("ana", "pro", 7))
        await driver.run(c.Credit("ana", 5, "grant"))
        assert [one.figures for one in await driver.read(ListFigures())] == [Figures(granted=7), Figures(granted=5)]

    async def test_the_point_of_figures_tells_the_time_the_cursor_and_the_oldest_commit(self, driver: Driver) -> None:
        assert await driver.read(GetFigurePoint()) == FigurePoint(driver.clock(), None, 0, 0)
        await open_house(driver)
        await submit(driver, "ana")
        first, *_, last = (one.number for one in await driver.read(ListFigures()))
        point = await driver.read(GetFigurePoint())
        assert (point.now, point.cursor) == (driver.clock(), None)
        assert 0 < point.first <= first < last <= point.last
        folded = await driver.one(c.FoldFigures(0, first, driver.clock(), left_out=(3,)), Folded)
        assert (await driver.read(GetFigurePoint())).cursor == folded.cursor
        await driver.check()

    async def test_rollups_are_listed_by_level_and_time(self, driver: Driver) -> None:
        begins = [hour * HOUR for hour in (1, 2, 30, 491_520)]
        await driver.run(c.FoldFigures(0, 1, 5, tuple((at, Figures(charged=at)) for at in begins)))
        for level in ("minute", "hour"):
            for since_at, kept in ((0, begins), (2 * HOUR, begins[1:]), (2 * HOUR + STEPS[level], begins[2:])):
                found = await driver.read(ListRollups(level, since_at))
                assert [(one.begins_at, one.figures.charged) for one in found] == [(at, at) for at in kept]
            old = await driver.read(ListOldRollups(level, 30 * HOUR, 5))
            assert old == [rollup_key(level, at) for at in begins[:2]]
            assert await driver.read(ListOldRollups(level, 30 * HOUR, 1)) == old[:1]
        await driver.run(c.ForgetRollups((rollup_key("minute", begins[0]),)))
        assert [one.begins_at for one in await driver.read(ListRollups("minute", 0))] == begins[1:]
        await driver.check()

    async def test_the_queue_is_counted_with_the_commits_that_are_part_of_it(self, driver: Driver) -> None:
        assert await driver.read(GetQueueCounts(0)) == QueueCounts([], [])
        await one_in_each_place(driver)
        told = await driver.read(ListFigures(limit=10_000))
        counted = await driver.read(GetQueueCounts(told[-3].number, (told[1].number, 10**9)))
        waiting = [
            QueueCount(one.plan, one.tool, one.pool, one.ready, one.parked)
            for one in total(one.figures for one in told).counts
            if one.ready or one.parked
        ]
        assert len(waiting) > 1
        assert counted.counts == sorted(waiting, key=lambda one: (one.plan, one.tool, one.pool))
        assert counted.ahead == [*told[-2:], told[1]]
        assert (await driver.read(GetQueueCounts(0, limit=2))).ahead == told[:2]

    async def test_what_alerts_are_made_of_is_counted_up_to_a_limit(self, driver: Driver) -> None:
        assert await driver.read(GetAlertCounts(1_000, 1_000, 5)) == AlertCounts(0, 0, 0, 0)
        await one_in_each_place(driver)
        dead = sum(job.dead_at is not None for job in driver.expected.jobs.values())
        assert await driver.read(GetAlertCounts(3_600_000, 0, 5)) == AlertCounts(0, dead, 0, 0)
        now, ids = driver.clock(), [driver.new_id() for _ in range(5)]
        sent = [Delivery(one, "", ids[0], "job.failed", "ana", None, "1", now, now) for one in ids]
        hooks = [PendingHook("tidy", one, now) for one in ids[:2]]
        await driver.write(Changes(keyed=[*sent[:-1], replace(sent[-1], state="failed", ended_at=now)], hooks=hooks))
        driver.clock.advance(0.999_999)
        assert (await driver.read(GetAlertCounts(3_600_000, 1_000, 9))).messages == 0
        driver.clock.advance(0.000_001)
        assert await driver.read(GetAlertCounts(3_600_000, 1_000, 9)) == AlertCounts(0, dead, 4, 2)
        assert await driver.read(GetAlertCounts(3_600_000, 1_000, 1)) == AlertCounts(0, 1, 1, 1)

    async def test_the_longest_wait_and_the_last_heartbeat_of_each_pool_are_known(self, driver: Driver) -> None:
        assert await driver.read(ListPoolTimes()) == []
        await open_house(driver)
        began_at = driver.clock()
        for priority in (50, 10, 50):
            await submit(driver, priority=priority)
            driver.clock.advance(1)
        assert await driver.read(ListPoolTimes()) == [PoolTimes("gpu", began_at, None)]
        # The best goes first, then the oldest of the others.
        held: list[ClaimedJob] = []
        for longest_since in (began_at, began_at + 2 * SECOND, None):
            driver.clock.advance(1)
            held += (await driver.one(c.Claim("w1", ("gpu",), starts=True), Claimed)).leases
            assert await driver.read(ListPoolTimes()) == [PoolTimes("gpu", longest_since, driver.clock())]
        # One that ran before waits for its next run, which is no wait in line.
        driver.clock.advance(1)
        await finish(driver, held[-1], c.Interrupted("stopped"))
        assert await driver.read(ListPoolTimes()) == [PoolTimes("gpu", None, driver.clock() - 2 * SECOND)]
        # Nor has a job at a provider anybody who would send a heartbeat.
        for one in held[:-1]:
            await finish(driver, one, c.AcceptedByProvider(one.job.id))
        assert await driver.read(ListPoolTimes()) == []

    async def test_what_is_overdue_is_counted_and_its_first_is_known(self, driver: Driver) -> None:
        began_at = driver.clock()
        assert await driver.read(GetBacklog(5)) == Backlog(began_at, 0, None, 0, None, 0, None)
        await open_house(driver)
        await lease(driver)
        outside = await lease(driver)
        await finish(driver, outside, c.AcceptedByProvider("ref"))
        [held] = (job.place for job in driver.expected.jobs.values() if isinstance(job.place, Leased))
        driver.clock.advance(59.999_999)
        assert (await driver.read(GetBacklog(5))).overdue_at is None
        driver.clock.advance(0.000_001)
        found = await driver.read(GetBacklog(5))
        assert (found.now, found.overdue, found.overdue_at) == (driver.clock(), 1, held.expires_at)
        driver.clock.advance(3_600)
        found = await driver.read(GetBacklog(5))
        assert (found.overdue, found.overdue_at) == (2, held.expires_at)

    async def test_a_run_beyond_its_time_is_overdue_once_a_heartbeat_has_come(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, timeout_ms=1_000)
        driver.clock.now = held.deadline_at
        assert (await driver.read(GetBacklog(5))).overdue == 0
        assert (await driver.read(GetAlertCounts(3_600_000, 0, 5))).stuck == 0
        await driver.run(c.Heartbeat(held.job.id, 1))
        found = await driver.read(GetBacklog(5))
        assert (found.overdue, found.overdue_at) == (1, held.deadline_at)
        assert (await driver.read(GetAlertCounts(3_600_000, 0, 5))).stuck == 1

    async def test_a_parked_job_is_overdue_when_its_time_has_come(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver)
        await finish(driver, held, c.RetryLater(5_000))
        [place] = (job.place for job in driver.expected.jobs.values() if isinstance(job.place, Parked))
        assert (await driver.read(GetBacklog(5))).overdue_at is None
        driver.clock.advance(7)
        found = await driver.read(GetBacklog(5))
        assert (found.overdue, found.overdue_at) == (0, place.due_at)

    async def test_messages_and_hooks_to_come_are_counted_up_to_a_limit(self, driver: Driver) -> None:
        now, ids = driver.clock(), [driver.new_id() for _ in range(4)]
        sent = [Delivery(one, "", ids[0], "job.failed", "ana", None, "1", now, now + n) for n, one in enumerate(ids)]
        hooks = [PendingHook("tidy", one, now + 5 - n) for n, one in enumerate(ids[:2])]
        await driver.write(Changes(keyed=[replace(sent[0], state="failed", ended_at=now), *sent[1:]], hooks=hooks))
        assert await driver.read(GetBacklog(9)) == Backlog(now, 0, None, 3, now + 1, 2, now + 4)
        assert await driver.read(GetBacklog(1)) == Backlog(now, 0, None, 1, now + 1, 1, now + 4)

    async def test_the_figures_of_all_time_are_told(self, driver: Driver) -> None:
        assert await driver.read(GetTotal()) is None
        measures = Measures(calls={"fal": {"failed": 1}}, latencies={"fal": Histogram(7, {50: 1})})
        for turn in (0, 1):
            await driver.run(c.FoldFigures(turn, 1, 5, ((0, Figures(charged=1)),), measures=measures))
        found = await driver.read(GetTotal())
        assert found is not None
        doubled = Measures(calls={"fal": {"failed": 2}}, latencies={"fal": Histogram(14, {50: 2})})
        assert found.figures == Figures(charged=2, measures=doubled)
        await driver.check()

    async def test_overdue_and_silent_leases_are_stuck(self, driver: Driver) -> None:
        await open_house(driver)
        await lease(driver)
        outside = await lease(driver)
        await finish(driver, outside, c.AcceptedByProvider("ref"))
        driver.clock.advance(59.999_999)
        assert (await driver.read(GetAlertCounts(60_000, 0, 9))).stuck == 0
        driver.clock.advance(0.000_001)
        assert (await driver.read(GetAlertCounts(3_600_000, 0, 9))).stuck == 1
        driver.clock.advance(3_600)
        assert (await driver.read(GetAlertCounts(86_400_000, 0, 9))).stuck == 2

    async def test_workers_seen_are_those_that_were_heard_of_and_have_not_stopped(self, driver: Driver) -> None:
        await driver.run(see("w2"), see("w1"))
        driver.clock.advance(1)
        await driver.run(see("w3"), replace(see("w0"), stops=True))
        now, workers = driver.clock(), driver.expected.workers
        assert await driver.read(ListWorkersSeen(now - SECOND)) == [workers["w1"], workers["w2"], workers["w3"]]
        assert await driver.read(ListWorkersSeen(now - SECOND + 1)) == [workers["w3"]]
        assert await driver.read(ListWorkersSeen(0, 1)) == [workers["w1"]]


def _who_waits(driver: Driver) -> tuple[dict[str, list[Key]], dict[str, list[Key]]]:
    """The ready jobs by pool, and the parked ones by account, according to the rules."""
    ready: dict[str, list[Key]] = {}
    parked: dict[str, list[Key]] = {}
    for job in driver.expected.jobs.values():
        match job.place:
            case Ready(rank):
                ready.setdefault(job.spec.pool, []).append((rank, job.id))
            case Parked(rank, None):
                parked.setdefault(job.account_id, []).append((rank, job.id))
    for keys in (*ready.values(), *parked.values()):
        keys.sort()
    return ready, parked


def _join(whole: State, part: State) -> None:
    for name in State.__struct_fields__:
        mine, other = getattr(whole, name), getattr(part, name)
        if isinstance(mine, list):
            mine += other
        else:
            nobodys = ("pools", "keyed", "workers", "tallies", "api_keys", "api_key_uses")
            assert name in nobodys or not mine.keys() & other.keys(), f"{name} repeat themselves"
            mine.update(other)
