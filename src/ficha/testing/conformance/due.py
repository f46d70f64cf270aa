"""What is due: from the exact microsecond, and no longer once it was handled."""

from __future__ import annotations

from ...core import commands as c
from ...core.outcomes import Claimed, Submitted
from ...store.base import Due, GetDue
from ..driver import Driver
from .scenes import finish, lease, new_job, one_in_each_place, open_house, submit

MILLISECOND = 1_000
SECOND = 1_000_000
NEVER_MS = 10**9
"""Longer than any of these tests lasts."""


async def due(driver: Driver, *, stuck_ms: int = NEVER_MS, max_age_ms: int = NEVER_MS, limit: int = 500) -> Due:
    return await driver.read(GetDue(stuck_ms, max_age_ms, limit))


async def assert_due_from(
    driver: Driver, edge_at: int, job_id: str, *, stuck_ms: int = NEVER_MS, max_age_ms: int = NEVER_MS
) -> None:
    """The job is due from this instant on, and not a microsecond before."""
    assert edge_at > driver.clock()
    driver.clock.now = edge_at - 1
    assert (await due(driver, stuck_ms=stuck_ms, max_age_ms=max_age_ms)).jobs == []
    driver.clock.now = edge_at
    found = await due(driver, stuck_ms=stuck_ms, max_age_ms=max_age_ms)
    assert (found.now, found.jobs, found.reservations, found.keys) == (edge_at, [job_id], [], [])
    driver.clock.now = edge_at + 1
    assert (await due(driver, stuck_ms=stuck_ms, max_age_ms=max_age_ms)).jobs == [job_id]


class DueConformance:
    """The sweeper's query."""

    async def test_nothing_is_due_in_an_empty_store(self, driver: Driver) -> None:
        assert await due(driver) == Due(driver.clock(), [], [], [], {})

    async def test_a_lease_is_due_when_it_expires(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver)
        await assert_due_from(driver, held.expires_at, held.job.id)

    async def test_a_heartbeat_puts_the_expiry_off(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver)
        driver.clock.advance(30)
        await driver.run(c.Heartbeat(held.job.id, 1))
        await assert_due_from(driver, held.expires_at + 30 * SECOND, held.job.id)

    async def test_a_lease_is_due_after_its_deadline_only_once_a_heartbeat_has_come(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, timeout_ms=1_000)
        driver.clock.now = held.deadline_at - 1
        await driver.run(c.Heartbeat(held.job.id, 1))
        driver.clock.now = held.deadline_at
        assert (await due(driver)).jobs == []
        await driver.run(c.Heartbeat(held.job.id, 1))
        assert (await due(driver)).jobs == [held.job.id]

    async def test_a_lease_beyond_its_deadline_is_due_when_it_expires(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, timeout_ms=1_000)
        await assert_due_from(driver, held.expires_at, held.job.id)

    async def test_a_lease_is_due_when_its_worker_is_silent_too_long(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver)
        driver.clock.advance(1)
        await driver.run(c.Heartbeat(held.job.id, 1))
        edge_at = driver.clock() + 2_500 * MILLISECOND
        await assert_due_from(driver, edge_at, held.job.id, stuck_ms=2_500)

    async def test_a_lease_is_due_when_its_first_start_was_too_long_ago(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, max_attempts=2)
        started_at = held.job.started_at
        assert started_at is not None
        await finish(driver, held, c.RetryLater(1_000))
        driver.clock.advance(1)
        await driver.run(c.Recover(held.job.id))
        await driver.one(c.Claim("w2", ("cpu",)), Claimed)
        await assert_due_from(driver, started_at + 1_500 * MILLISECOND, held.job.id, max_age_ms=1_500)

    async def test_a_wait_for_a_provider_is_due_at_its_deadline_and_not_for_silence(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, timeout_ms=120_000)
        await finish(driver, held, c.AcceptedByProvider("ref"))
        await assert_due_from(driver, held.deadline_at, held.job.id, stuck_ms=1)

    async def test_a_wait_for_a_provider_is_due_when_its_first_start_was_too_long_ago(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver)
        await finish(driver, held, c.AcceptedByProvider("ref"))
        assert held.job.started_at is not None
        await assert_due_from(driver, held.job.started_at + 70 * SECOND, held.job.id, max_age_ms=70_000)

    async def test_a_delayed_job_is_due_when_its_time_comes(self, driver: Driver) -> None:
        await open_house(driver)
        job = new_job(driver.new_id())
        run_at = driver.clock() + 1_234_567
        await driver.one(c.Submit("ana", (job,), run_at=run_at), Submitted)
        await assert_due_from(driver, run_at, job.id)

    async def test_a_job_behind_another_is_due_when_nobody_holds_that_one(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, content_hash="same")
        behind = await submit(driver, "eva", pool="cpu", content_hash="same", timeout_ms=9_000)
        assert (await driver.one(c.Claim("w1", ("cpu",)), Claimed)).behind == (behind,)
        assert (await due(driver)).jobs == []
        assert (await due(driver)).next == {}
        await finish(driver, held, c.Completed("1"))
        assert (await due(driver)).jobs == [behind]
        await driver.run(c.Recover(behind))
        assert (await due(driver)).jobs == []

    async def test_a_job_behind_another_is_due_after_the_time_of_a_run(self, driver: Driver) -> None:
        await open_house(driver)
        await lease(driver, content_hash="same")
        behind = await submit(driver, "ana", pool="cpu", content_hash="same", timeout_ms=9_000)
        await driver.run(c.Claim("w1", ("cpu",)))
        await assert_due_from(driver, driver.clock() + 9_000 * MILLISECOND, behind)

    async def test_what_falls_due_next_is_told_by_pool(self, driver: Driver) -> None:
        await open_house(driver)
        start_at = driver.clock()
        for pool, in_s in (("cpu", 3), ("gpu", 2), ("cpu", 1), ("cpu", 2)):
            job = new_job(driver.new_id(), pool=pool)
            await driver.one(c.Submit("ana", (job,), run_at=start_at + in_s * SECOND), Submitted)
        for passed_s, following in (
            (0, {"cpu": 1, "gpu": 2}),
            (1, {"cpu": 2, "gpu": 2}),
            (2, {"cpu": 3}),
            (3, {}),
        ):
            driver.clock.now = start_at + passed_s * SECOND
            assert (await due(driver)).next == {pool: start_at + s * SECOND for pool, s in following.items()}
        driver.clock.now = start_at
        assert (await due(driver, limit=1)).next == {"cpu": start_at + SECOND}

    async def test_a_retried_job_is_due_after_its_backoff(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, max_attempts=2, backoff_ms=777)
        finished = await finish(driver, held, c.Failed("again"))
        assert finished.due_at == driver.clock() + 777 * MILLISECOND
        await assert_due_from(driver, finished.due_at, held.job.id)

    async def test_a_ready_job_is_due_when_it_has_waited_too_long(self, driver: Driver) -> None:
        await open_house(driver)
        job_id = await submit(driver, max_wait_ms=500)
        await assert_due_from(driver, driver.clock() + 500 * MILLISECOND, job_id)

    async def test_a_parked_job_is_due_when_it_has_waited_too_long(self, driver: Driver) -> None:
        await open_house(driver)
        await submit(driver, "bob")
        job_id = await submit(driver, "bob", max_wait_ms=500)
        await assert_due_from(driver, driver.clock() + 500 * MILLISECOND, job_id)

    async def test_a_job_that_was_started_once_is_not_due_for_its_wait(self, driver: Driver) -> None:
        # It is not cancelled any more, so returning it would only take the place of others within the limit.
        await open_house(driver)
        recovered = await lease(driver, max_wait_ms=500)
        driver.clock.now = recovered.expires_at
        await driver.run(c.Recover(recovered.job.id))
        retried = await lease(driver, pool="gpu", max_wait_ms=500)
        await finish(driver, retried, c.RetryLater(3_600_000))
        driver.clock.advance(1)
        assert (await due(driver)).jobs == []

    async def test_a_ready_job_is_due_when_waiting_improves_its_rank(self, driver: Driver) -> None:
        await open_house(driver)
        job_id = await submit(driver, "eva")
        await assert_due_from(driver, driver.clock() + 10 * SECOND, job_id)
        await driver.run(c.Recover(job_id))
        await assert_due_from(driver, driver.expected.jobs[job_id].created_at + 20 * SECOND, job_id)

    async def test_a_reservation_is_due_when_it_expires_unless_it_has_ended(self, driver: Driver) -> None:
        await open_house(driver)
        held, released = driver.new_id(), driver.new_id()
        await driver.run(
            c.Reserve(held, "ana", 1_000), c.Reserve(released, "ana", 1_000), c.EndReservation(released, "released")
        )
        driver.clock.now += SECOND - 1
        assert (await due(driver)).reservations == []
        driver.clock.now += 1
        assert await due(driver) == Due(driver.clock(), [], [held], [], {})
        await driver.run(c.ExpireReservation(held))
        assert (await due(driver)).reservations == []

    async def test_a_reservation_that_ended_is_due_when_its_time_was_over_long_ago(self, driver: Driver) -> None:
        await open_house(driver)
        ended = {state: driver.new_id() for state in ("consumed", "released", "expired")}
        await driver.run(*(c.Reserve(held, "ana", 1_000) for held in ended.values()))
        await driver.run(
            c.EndReservation(ended["consumed"], "consumed"), c.EndReservation(ended["released"], "released")
        )
        driver.clock.now += SECOND
        await driver.run(c.ExpireReservation(ended["expired"]))
        driver.clock.now += 9 * SECOND - 1
        asked = GetDue(NEVER_MS, NEVER_MS, reservations_kept_ms=9_000)
        assert (await driver.read(asked)).reservations == []
        driver.clock.now += 1
        assert set((await driver.read(asked)).reservations) == {*ended.values()}
        assert len((await driver.read(GetDue(NEVER_MS, NEVER_MS, 2, 9_000))).reservations) == 2

    async def test_a_reservation_that_ended_is_deleted_after_its_time(self, driver: Driver) -> None:
        await open_house(driver)
        ended, active = driver.new_id(), driver.new_id()
        await driver.run(c.Reserve(ended, "ana", 1_000), c.EndReservation(ended, "released"))
        driver.clock.now += 86_401 * SECOND - 1
        await driver.run(c.ExpireReservation(ended), c.Reserve(active, "ana", 1_000))
        assert ended in driver.expected.reservations
        driver.clock.now += 1
        await driver.run(c.ExpireReservation(ended), c.ExpireReservation(active))
        assert [*driver.expected.reservations] == [active]
        await driver.check()

    async def test_a_key_is_due_when_it_expires_and_never_without_an_expiry(self, driver: Driver) -> None:
        await open_house(driver)
        await driver.run(
            c.Submit("ana", (new_job(driver.new_id()),), key="k", key_ttl_ms=1_000),
            c.Submit("bob", (new_job(driver.new_id()),), key="k"),
            c.Credit("ana", 1, "grant", key="k"),
        )
        driver.clock.now += SECOND - 1
        assert (await due(driver)).keys == []
        driver.clock.now += 1
        assert await due(driver) == Due(driver.clock(), [], [], [("ana", "submit", "k")], {})
        await driver.run(c.ForgetKey("ana", "submit", "k"))
        assert (await due(driver)).keys == []

    async def test_a_job_due_for_several_reasons_is_named_once(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, timeout_ms=60_000)
        waiting = await submit(driver, "eva", max_wait_ms=10_000)
        delayed = new_job(driver.new_id(), max_wait_ms=1)
        await driver.one(c.Submit("ana", (delayed,), delay_ms=1), Submitted)
        driver.clock.advance(3_600)
        found = await due(driver, stuck_ms=1, max_age_ms=1)
        assert sorted(found.jobs) == sorted([held.job.id, waiting, delayed.id])

    async def test_jobs_that_ended_are_never_due(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        await driver.run(*(c.CancelJob(job_id) for job_id in list(driver.expected.jobs)))
        driver.clock.advance(10**7)
        assert (await due(driver, stuck_ms=0, max_age_ms=0)).jobs == []

    async def test_what_the_limit_leaves_out_comes_up_in_the_next_rounds(self, driver: Driver) -> None:
        await open_house(driver)
        await driver.run(
            *(c.Submit("ana", (new_job(driver.new_id()),), key=f"k{n}", key_ttl_ms=1_000) for n in range(7)),
            *(c.Submit("ana", (new_job(driver.new_id(), max_wait_ms=5_000),), delay_ms=1_000) for n in range(7)),
            *(c.Reserve(driver.new_id(), "ana", 1_000) for n in range(7)),
        )
        await driver.run(c.Claim("w1", ("gpu",), limit=7))
        driver.clock.advance(60)
        for _ in range(30):
            found = await due(driver, limit=3)
            assert len(found.reservations) <= 3
            assert len(found.keys) <= 3
            if not (found.jobs or found.reservations or found.keys):
                break
            await driver.run(
                *(c.Recover(job_id) for job_id in found.jobs),
                *(c.ExpireReservation(held) for held in found.reservations),
                *(c.ForgetKey(*name) for name in found.keys),
            )
        else:
            raise AssertionError("the sweep does not come to an end")
        await driver.check()
        assert driver.expected.keys == {}
        assert {held.state for held in driver.expected.reservations.values()} == {"expired"}
        assert {job.status for job in driver.expected.jobs.values()} == {"cancelled", "queued"}
