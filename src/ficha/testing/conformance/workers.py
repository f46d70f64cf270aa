"""Workers: their registration, how their runs ended, what they hold."""

from __future__ import annotations

from ...core import commands as c
from ...core.outcomes import Claimed, Recovered
from ...core.records import Tally, Worker
from ...core.snapshot import Changes
from ...core.suspects import Suspect
from ...store.base import Company, GetCompany, ListSuspects, ListWorkers, WorkerCounts, WorkerList
from ..comparing import comparable
from ..driver import Driver
from .events import KEPT_MS
from .scenes import finish, lease, one_in_each_place, open_house, see, submit

STUCK_MS = 60_000


async def tallies(driver: Driver, name: str) -> dict[str, tuple[int, int]]:
    """The number of a worker's runs by kind, and the microseconds that they took."""
    [found] = [worker for worker in (await driver.read(ListWorkers(STUCK_MS))).workers if worker.name == name]
    return {tally.kind: (tally.runs, tally.busy_us) for tally in found.tallies}


class WorkerConformance:
    """The list of workers, and their counts."""

    async def test_nobody_works_in_an_empty_store(self, driver: Driver) -> None:
        assert await driver.read(ListWorkers(STUCK_MS)) == WorkerList(driver.clock(), [])

    async def test_a_worker_reads_back_as_it_last_spoke_of_itself(self, driver: Driver) -> None:
        first = see("w1")
        await driver.run(first, see("w2", pools=(), host='a "host"', concurrency=2**31 - 1, problem="no é"))
        began_at = driver.clock()
        driver.clock.advance(10)
        await driver.run(see("w1", pid=8, started_at=began_at), see("w1", pools=("é", "a,b"), started_at=began_at))
        await driver.check()
        driver.clock.advance(0.000_001)
        await driver.run(see("w1", started_at=began_at, stops=True))
        await driver.check()
        found = {counts.name: counts.worker for counts in (await driver.read(ListWorkers(STUCK_MS))).workers}
        now = driver.clock()
        assert found["w1"] == Worker(
            "w1", "host", 7, ("gpu", "cpu"), 10, "1.0", 10_000, started_at=began_at, seen_at=now, stopped_at=now
        )
        assert found["w2"] is not None
        assert (found["w2"].pools, found["w2"].seen_at, found["w2"].stopped_at) == ((), began_at, None)
        assert (found["w1"].problem, found["w2"].problem) == (None, "no é")

    async def test_every_run_is_counted_as_begun_and_by_how_it_ended(self, driver: Driver) -> None:
        await open_house(driver)
        endings: dict[str, c.Ending] = {
            "completed": c.Completed("1"),
            "failed": c.Failed("no", final=True),
            "cancelled": c.CancelledByHandler("no"),
            "retried": c.RetryLater(3_600_000),
            "accepted": c.AcceptedByProvider("ref"),
            "returned": c.Interrupted("the worker stops"),
            "recovered": c.Interrupted("its process died", lost=True),
        }
        for took_s, (kind, ending) in enumerate(endings.items(), start=1):
            held = await lease(driver, worker=kind)
            driver.clock.advance(took_s)
            await finish(driver, held, ending)
            busy_us = 0 if kind == "recovered" else took_s * 1_000_000
            assert await tallies(driver, kind) == {"claimed": (1, 0), kind: (1, busy_us)}
            await driver.run(c.CancelJob(held.job.id))
            assert await tallies(driver, kind) == {"claimed": (1, 0), kind: (1, busy_us)}
        await driver.check()

    async def test_runs_that_others_end_are_their_workers(self, driver: Driver) -> None:
        await open_house(driver)
        cancelled = await lease(driver, worker="w1")
        driver.clock.advance(2)
        await driver.run(c.CancelJob(cancelled.job.id))
        assert await tallies(driver, "w1") == {"cancelled": (1, 2_000_000), "claimed": (1, 0)}
        lost = await lease(driver, worker="w2")
        for recoveries in range(1, driver.policy.max_recoveries):
            driver.clock.advance(driver.policy.lease_ms / 1_000)
            assert (await driver.one(c.Recover(lost.job.id), Recovered)).act == "requeued"
            assert await tallies(driver, "w2") == {"claimed": (recoveries, 0), "recovered": (recoveries, 0)}
            await driver.one(c.Claim("w2", ("cpu",)), Claimed)
        driver.clock.advance(driver.policy.lease_ms / 1_000)
        assert (await driver.one(c.Recover(lost.job.id), Recovered)).act == "failed"
        poison = await tallies(driver, "w2")
        assert (poison["claimed"][0], poison["recovered"][0], poison["failed"][0]) == (3, 2, 1)
        await driver.check()

    async def test_suspects_are_listed_best_first_and_counted_with_what_their_worker_holds(
        self, driver: Driver
    ) -> None:
        await open_house(driver)
        held = [await lease(driver, worker="w1", pool=pool) for pool in ("cpu", "cpu", "gpu", "gpu")]
        assert await driver.read(ListSuspects(("cpu", "gpu"), 9)) == []
        assert await driver.read(GetCompany("w1")) == Company(4, 0)
        driver.clock.advance(driver.policy.lease_ms / 1_000)
        await driver.run(*(c.Recover(one.job.id) for one in held[:3]))
        suspects = [Suspect(one.job.id, one.job.spec.pool, one.job.spec.tool, 1) for one in held[:3]]
        assert await driver.read(ListSuspects(("cpu",), 9)) == suspects[:2]
        assert await driver.read(ListSuspects(("gpu", "cpu"), 1)) == suspects[:1]
        assert await driver.read(GetCompany("w1")) == Company(1, 0)
        await driver.one(c.ClaimJob("w2", "cpu", held[0].job.id), Claimed)
        assert await driver.read(ListSuspects(("cpu", "gpu"), 9)) == suspects[1:]
        assert await driver.read(GetCompany("w2")) == Company(1, 1)
        assert await driver.read(GetCompany("nobody")) == Company(0, 0)

    async def test_counts_add_up_over_groups_and_within_one(self, driver: Driver) -> None:
        await open_house(driver)
        ids = [await submit(driver, pool="cpu", max_attempts=2) for _ in range(20)]
        await driver.run(c.Claim("w1", ("cpu",), limit=3), c.Claim("w2", ("cpu",), limit=4), c.Claim("w1", ("cpu",)))
        for _ in range(12):
            await driver.run(c.Claim("w2", ("cpu",)))
        driver.clock.advance(0.5)
        await driver.run(*(c.Finish(job_id, c.Completed("1"), 1) for job_id in ids[:15]), c.CancelJob(ids[15]))
        await driver.run(*(c.Finish(job_id, c.Failed("again"), 1) for job_id in ids[15:]))
        await driver.check()
        assert (await tallies(driver, "w1"))["claimed"] == (4, 0)
        both = [await tallies(driver, name) for name in ("w1", "w2")]
        assert sum(found["completed"][1] for found in both) == 15 * 500_000
        assert {kind: sum(found.get(kind, (0,))[0] for found in both) for kind in both[0] | both[1]} == {
            **{"claimed": 20, "completed": 15},
            **{"cancelled": 1, "retried": 4},
        }
        await driver.store.tidy(KEPT_MS)
        assert [await tallies(driver, name) for name in ("w1", "w2")] == both
        await driver.store.tidy(KEPT_MS)
        await driver.check()

    async def test_what_a_worker_holds_and_what_of_it_is_stuck(self, driver: Driver) -> None:
        await open_house(driver)
        silent, lively = await lease(driver, worker="w1"), await lease(driver, worker="w1")
        outside = await lease(driver, worker="w2")
        await finish(driver, outside, c.AcceptedByProvider("ref"))
        driver.clock.advance(1)
        await driver.run(c.Heartbeat(lively.job.id, 1))
        for since_s, stuck in ((0.0, 0), (0.000_001, 1), (0.999_999, 1), (0.000_001, 2)):
            driver.clock.advance(since_s)
            found = (await driver.read(ListWorkers(1_000))).workers
            assert [(one.name, one.running, one.stuck) for one in found] == [("w1", 2, stuck), ("w2", 0, 0)]
        await finish(driver, silent, c.Completed("1"))
        assert [one.running for one in (await driver.read(ListWorkers(1_000))).workers] == [1, 0]

    async def test_workers_are_listed_by_name_in_pages(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        names = ["A", "a", "é", "w0", "w11", "~", "\N{OLD ITALIC LETTER A}", "\uffee"]
        await driver.run(*(see(name) for name in names[:5]))
        await driver.write(Changes(tallies=[Tally(name, "claimed", 1) for name in names[3:]]))
        expected = _workers(driver)
        assert [counts.name for counts in expected] == sorted([*names, "w1", "w2"])
        for size in (1, 2, 3, len(expected), len(expected) + 1):
            found: list[WorkerCounts] = []
            while part := (await driver.read(ListWorkers(STUCK_MS, found[-1].name if found else None, size))).workers:
                assert len(part) <= size
                found += part
                assert len(found) <= len(expected), "the pages repeat themselves"
            assert comparable(found) == comparable(expected), f"in pages of {size}"

    async def test_workers_that_begin_and_end_at_once_are_all_counted(self, driver: Driver) -> None:
        await open_house(driver)
        ids = [await submit(driver, pool="cpu") for _ in range(12)]
        await driver.race(*([c.Claim(f"w{number % 2}", ("cpu",), limit=2), see("w0")] for number in range(6)))
        await driver.race(*([c.Finish(job_id, c.Completed("1"), 1)] for job_id in ids))
        await driver.store.tidy(KEPT_MS)
        found = (await driver.read(ListWorkers(STUCK_MS))).workers
        counts = {one.name: {tally.kind: tally.runs for tally in one.tallies} for one in found}
        assert counts == {"w0": {"claimed": 6, "completed": 6}, "w1": {"claimed": 6, "completed": 6}}
        await driver.check()


def _workers(driver: Driver) -> list[WorkerCounts]:
    """All expected workers, according to the rules."""
    state = driver.expected
    names = sorted(state.workers.keys() | {worker for worker, _ in state.tallies})
    held = [job.place.worker for job in state.jobs.values() if job.place is not None and hasattr(job.place, "worker")]
    return [
        WorkerCounts(
            name,
            state.workers.get(name),
            tuple(tally for _, tally in sorted(state.tallies.items()) if tally.worker == name),
            held.count(name),
            0,
        )
        for name in names
    ]
