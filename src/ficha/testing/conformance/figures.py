"""Queries over many jobs: waiting jobs, statistics, and the whole state in parts."""

from __future__ import annotations

from ...core import commands as c
from ...core.dataset import State
from ...core.invariants import violations
from ...core.records import Parked, Ready
from ...store.base import GetState, GetStats, GetWaiting, Stats, Waiting
from ...store.waiting_columns import Key, Lines
from ..comparing import comparable
from ..driver import Driver
from .scenes import finish, lease, new_job, one_in_each_place, open_house, see, submit


class FigureConformance:
    """Waiting, statistics, state."""

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
        await driver.run(*(c.OpenAccount(name, "pro", 3) for name in ("A", "~", "é", "zoë")))
        whole = driver.expected
        for limit in (1, 2, 3, 1_000):
            joined = State()
            after: str | None = None
            while (part := await driver.read(GetState(after, limit, texts=True))).accounts:
                assert len(part.accounts) <= limit
                assert violations(part) == []
                for name in ("pools", "keyed", "workers", "tallies"):
                    assert comparable(getattr(part, name)) == comparable(getattr(whole, name)), name
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
