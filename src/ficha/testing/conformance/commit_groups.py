"""A commit group is one transaction: all or nothing, with a marker, and isolated from others."""

from __future__ import annotations

from ...core import commands as c
from ...core.needs import Needs
from ...core.outcomes import Claimed, Finished, Refusal, ReservationChanged, StepSaved, Submitted
from ...core.records import Account, Entry, Event, Leader
from ...core.snapshot import Changes, Snapshot
from ...store.base import Decide, Decision, GetBatch, GetState, GetWaiting, ListCommits, StoreError
from ..comparing import comparable
from ..driver import Driver
from .scenes import lease, new_job, one_in_each_place, open_house, raises, submit


class _Refused(Exception):
    """Raised by a test in place of the rules."""


def _led_by(owner: str) -> Decide:
    return lambda snapshot: (Changes(keyed=[Leader("duty", owner, 1)]), [])


class CommitGroupConformance:
    """Atomicity, markers, concurrency."""

    async def test_nothing_is_written_when_deciding_fails(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        before = comparable(await driver.read(GetState(texts=True)))
        failure = _Refused("a rule is broken")

        def broken(snapshot: Snapshot) -> Decision:
            raise failure

        committer = driver.new_id()
        with raises(_Refused) as raised:
            await driver.store.transact(committer, 1, Needs(accounts={"ana"}, owned_jobs={places.ready}), broken)
        assert raised == [failure]
        assert comparable(await driver.read(GetState(texts=True))) == before
        assert not await driver.store.committed(committer, 1)
        await driver.run(c.CancelJob(places.ready))
        await driver.check()

    async def test_nothing_is_written_when_the_database_refuses_a_row(self, driver: Driver) -> None:
        await open_house(driver)
        job_id = await submit(driver)
        before = comparable(await driver.read(GetState(texts=True)))
        number = driver.expected.accounts["ana"].entries
        late = Event(job_id, "ana", 2, "late", driver.clock())
        twice = Changes(
            accounts=[Account("new", "pro", driver.clock())],
            keyed=[Leader("duty", "owner", driver.clock())],
            events=[late],
            history=[late],
            # The job is charged already: a second charge must be impossible, even with a bug.
            entries=[
                Entry("ana", number + 1, "adjust", 1, 1_000, driver.clock()),
                Entry("ana", number + 2, "charge", -5, 995, driver.clock(), job_id),
            ],
        )
        committer = driver.new_id()
        with raises(StoreError):
            await driver.store.transact(committer, 1, Needs(accounts={"ana"}), lambda snapshot: (twice, []))
        assert comparable(await driver.read(GetState(texts=True))) == before
        assert not await driver.store.committed(committer, 1)
        await driver.check()

    async def test_a_refused_command_does_not_fail_its_neighbours(self, driver: Driver) -> None:
        await open_house(driver)
        rich, poor = new_job(driver.new_id()), new_job(driver.new_id(), cost=10_000)
        first, refused, second = await driver.run(
            c.Submit("ana", (rich,)), c.Submit("ana", (poor,)), c.Credit("ana", 7, "grant")
        )
        assert not isinstance(first, Refusal)
        assert isinstance(refused, Refusal)
        assert refused.code == "INSUFFICIENT_CREDITS"
        assert refused.details == {"have": 995, "need": 10_000}
        assert not isinstance(second, Refusal)
        assert set(driver.expected.jobs) == {rich.id}
        await driver.check()

    async def test_a_transaction_is_marked_as_committed_by_its_committer(self, driver: Driver) -> None:
        store, duty = driver.store, Needs(keyed={("Leader", "duty")})
        one, two = driver.new_id(), driver.new_id()
        assert not await store.committed(one, 1)
        await store.transact(one, 1, duty, _led_by("a"))
        assert await store.committed(one, 1)
        assert not await store.committed(one, 2)
        assert not await store.committed(two, 1)
        await store.transact(two, 7, duty, _led_by("b"))
        await store.transact(one, 5, duty, _led_by("c"))
        assert await store.committed(one, 5)
        assert not await store.committed(one, 6)
        assert await store.committed(two, 7)
        assert not await store.committed(two, 8)

    async def test_what_was_committed_is_returned(self, driver: Driver) -> None:
        decision: Decision = Changes(keyed=[Leader("duty", "a", 1)]), [Refusal("NOT_FOUND", "nothing is there")]
        done = await driver.store.transact(
            driver.new_id(), 1, Needs(keyed={("Leader", "duty")}), lambda snapshot: decision
        )
        assert (done.changes, done.outcomes, list(done.hints)) == (*decision, [])
        nothing: Decision = Changes(), [Refusal("NOT_FOUND", "still nothing")]
        done = await driver.store.transact(
            driver.new_id(), 1, Needs(keyed={("Leader", "duty")}), lambda snapshot: nothing
        )
        assert (done.changes, done.outcomes, list(done.hints)) == (*nothing, [])

    async def test_a_group_sees_what_the_one_before_it_wrote(self, driver: Driver) -> None:
        await open_house(driver)
        for spent in range(5, 55, 5):
            outcome = await driver.one(c.Submit("ana", (new_job(driver.new_id()),)), Submitted)
            assert outcome.new_balance == 1_000 - spent
            assert (await driver.read(GetState())).accounts["ana"].balance == 1_000 - spent

    async def test_two_hundred_submits_make_one_group(self, driver: Driver) -> None:
        await open_house(driver)
        accounts = [f"account {number}" for number in range(50)]
        await driver.run(*(c.OpenAccount(account, "free", 100) for account in accounts))
        outcomes = await driver.run(
            *(
                c.Submit(accounts[number % 50], (new_job(driver.new_id()),), "print", key=f"key {number}")
                for number in range(200)
            )
        )
        assert all(isinstance(outcome, Submitted) for outcome in outcomes)
        await driver.check()
        waiting = await driver.read(GetWaiting())
        assert len(waiting.ready.line("gpu")) == 50
        assert [len(waiting.parked.line(account)) for account in accounts] == [3] * 50

    async def test_ten_thousand_jobs_are_submitted_run_and_cancelled_as_one_batch(self, driver: Driver) -> None:
        await driver.run(c.OpenAccount("ana", "pro", 1_000_000), c.DeclarePool("gpu", None))
        batch_id = driver.new_id()
        jobs = tuple(new_job(driver.new_id(), payload=f'{{"item": {item}}}') for item in range(10_000))
        outcome = await driver.one(c.Submit("ana", jobs, batch_id=batch_id), Submitted)
        assert (outcome.jobs, outcome.cost, outcome.new_balance) == (10_000, 50_000, 950_000)
        counts = await driver.read(GetBatch(batch_id))
        assert counts is not None
        assert counts.batch.total == 10_000
        assert counts.by_status == {"queued": 10_000}
        claimed = await driver.one(c.Claim("w1", ("gpu",), limit=1_000), Claimed)
        assert [held.job.id for held in claimed.leases] == [job.id for job in jobs[:1_000]]
        await driver.run(*(c.Finish(held.job.id, c.Completed("[]"), 1) for held in claimed.leases))
        await driver.run(*(c.CancelJob(job.id) for job in jobs[1_000:]))
        counts = await driver.read(GetBatch(batch_id))
        assert counts is not None
        assert counts.by_status == {"completed": 1_000, "cancelled": 9_000}
        assert driver.expected.accounts["ana"].balance == 995_000
        await driver.check()

    async def test_jobs_added_to_a_batch_leave_its_total_as_it_was_first_submitted(self, driver: Driver) -> None:
        await open_house(driver)
        batch_id = driver.new_id()
        jobs = [new_job(driver.new_id()) for _ in range(6)]
        await driver.run(
            c.Submit("ana", tuple(jobs[:3]), batch_id=batch_id), c.Submit("ana", tuple(jobs[3:4]), batch_id=batch_id)
        )
        driver.clock.advance(1)
        await driver.run(c.Submit("ana", tuple(jobs[4:]), batch_id=batch_id))
        await driver.check()
        counts = await driver.read(GetBatch(batch_id))
        assert counts is not None
        assert (counts.batch.total, counts.by_status) == (3, {"queued": 6})

    async def test_the_first_result_of_a_step_wins(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver)
        outcomes = await driver.run(
            c.SaveStep(held.job.id, 1, "pay", '{"paid": 1}'), c.SaveStep(held.job.id, 1, "pay", '{"paid": 2}')
        )
        outcomes += await driver.run(c.SaveStep(held.job.id, 1, "pay", '{"paid": 3}'))
        saved = [outcome for outcome in outcomes if isinstance(outcome, StepSaved)]
        assert [outcome.result_json for outcome in saved] == ['{"paid": 1}'] * 3
        await driver.check()

    async def test_a_forgotten_key_is_gone_and_can_be_used_again(self, driver: Driver) -> None:
        await open_house(driver)
        first, second, third = (new_job(driver.new_id()) for _ in range(3))
        await driver.one(c.Submit("ana", (first,), "print", key="k", key_ttl_ms=1_000), Submitted)
        await driver.run(c.ForgetKey("ana", "submit", "k"))
        await driver.check()
        assert driver.expected.keys
        driver.clock.advance(1)
        await driver.run(c.ForgetKey("ana", "submit", "k"))
        await driver.check()
        assert not driver.expected.keys
        assert not (await driver.one(c.Submit("ana", (second,), "other", key="k"), Submitted)).idempotent_hit
        assert (await driver.one(c.Submit("ana", (second,), "other", key="k"), Submitted)).idempotent_hit
        driver.clock.advance(86_400)
        # Removed and added again within one commit group.
        await driver.run(c.ForgetKey("ana", "submit", "k"), c.Submit("ana", (third,), "third", key="k"))
        await driver.check()
        assert driver.expected.keys["ana", "submit", "k"].job_id == third.id

    async def test_a_repeated_submit_finds_its_job_wherever_it_is_now(self, driver: Driver) -> None:
        await open_house(driver)
        job = new_job(driver.new_id())
        command = c.Submit("ana", (job,), "print", key="k")
        await driver.run(command)
        for act in (c.Claim("w1", ("gpu",)), c.Finish(job.id, c.AcceptedByProvider("r"), 1), c.CancelJob(job.id)):
            await driver.run(act)
            outcome = await driver.one(command, Submitted)
            assert outcome.idempotent_hit
            assert outcome.status == driver.expected.jobs[job.id].status
        assert list(driver.expected.jobs) == [job.id]
        await driver.check()

    async def test_refunds_come_once_however_often_an_end_is_told(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver)
        await driver.run(c.Finish(held.job.id, c.Failed("no", final=True), 1), c.CancelJob(held.job.id))
        again = await driver.run(c.Finish(held.job.id, c.Completed("1"), 1), c.CancelJob(held.job.id))
        assert [outcome.changed for outcome in again if isinstance(outcome, Finished)] == [False, False]
        assert driver.expected.accounts["ana"].balance == 1_000
        await driver.check()

    # Several at once; a store with one committer runs them one after the other

    async def test_workers_that_claim_at_once_never_get_the_same_job(self, driver: Driver) -> None:
        await driver.run(c.OpenAccount("ana", "pro", 1_000), c.DeclarePool("gpu", None))
        await driver.run(*(c.Submit("ana", (new_job(driver.new_id()),)) for _ in range(60)))
        claims = await driver.race(*([c.Claim(f"w{number}", ("gpu",), limit=10)] for number in range(12)))
        leases = [held for (claimed,) in claims if isinstance(claimed, Claimed) for held in claimed.leases]
        rest = await driver.one(c.Claim("last", ("gpu",), limit=100), Claimed)
        ids = [held.job.id for held in (*leases, *rest.leases)]
        assert len(ids) == len(set(ids)) == 60
        await driver.check()

    async def test_a_pools_slots_hold_against_claims_at_once(self, driver: Driver) -> None:
        await driver.run(c.OpenAccount("ana", "pro", 1_000), c.DeclarePool("gpu", 3))
        await driver.run(*(c.Submit("ana", (new_job(driver.new_id()),)) for _ in range(20)))
        claims = await driver.race(*([c.Claim(f"w{number}", ("gpu",), limit=2)] for number in range(10)))
        leases = [held for (claimed,) in claims if isinstance(claimed, Claimed) for held in claimed.leases]
        assert len(leases) == 3
        await driver.check()

    async def test_repeats_of_a_submit_at_once_make_one_job(self, driver: Driver) -> None:
        await open_house(driver)
        groups = [[c.Submit("ana", (new_job(driver.new_id()),), "print", key="k")] for _ in range(10)]
        outcomes = [outcome for (outcome,) in await driver.race(*groups) if isinstance(outcome, Submitted)]
        assert len({outcome.job_id for outcome in outcomes}) == 1
        assert sorted(outcome.idempotent_hit for outcome in outcomes) == [False] + [True] * 9
        assert driver.expected.accounts["ana"].balance == 995
        await driver.check()

    async def test_credits_are_never_spent_twice_by_submits_at_once(self, driver: Driver) -> None:
        await driver.run(c.OpenAccount("ana", "pro", 22), c.DeclarePool("gpu", None))
        groups = [[c.Submit("ana", (new_job(driver.new_id()),))] for _ in range(10)]
        outcomes = [outcome for (outcome,) in await driver.race(*groups)]
        assert sum(isinstance(outcome, Submitted) for outcome in outcomes) == 4
        assert driver.expected.accounts["ana"].balance == 2
        await driver.check()

    async def test_of_those_that_race_for_the_last_slot_one_gets_it(self, driver: Driver) -> None:
        await driver.run(c.OpenAccount("ana", "single", 100), c.DeclarePool("gpu", None))
        groups: list[list[c.Command]] = [[c.Reserve(driver.new_id(), "ana")] for _ in range(5)]
        groups += [[c.Submit("ana", (new_job(driver.new_id()),))] for _ in range(5)]
        outcomes = [outcome for (outcome,) in await driver.race(*groups)]
        won = [outcome for outcome in outcomes if isinstance(outcome, Submitted | ReservationChanged)]
        assert len(won) == 1
        await driver.check()

    async def test_ends_told_at_once_end_a_job_once(self, driver: Driver) -> None:
        await open_house(driver)
        held = [await lease(driver) for _ in range(5)]
        groups: list[list[c.Command]] = []
        for one in held:
            job_id = one.job.id
            groups += [
                [c.Finish(job_id, c.Failed("no"), 1)],
                [c.CancelJob(job_id)],
                [c.Finish(job_id, c.Completed("1"))],
                [c.Heartbeat(job_id, 1)],
            ]
        outcomes = [outcome for (outcome,) in await driver.race(*groups)]
        assert sum(outcome.changed for outcome in outcomes if isinstance(outcome, Finished)) == 5
        await driver.check()
        kinds = [event.kind for commit in await driver.read(ListCommits()) for event in commit.events]
        assert sum(kind in ("completed", "failed", "cancelled") for kind in kinds) == 5

    async def test_concurrent_groups_on_the_same_rows_all_end(self, driver: Driver) -> None:
        await driver.run(
            *(c.OpenAccount(f"a{number}", "pair", 1_000) for number in range(4)), c.DeclarePool("gpu", None)
        )
        ids = [driver.new_id() for _ in range(80)]
        submits: list[list[c.Command]] = [
            [c.Submit(f"a{place % 4}", (new_job(job_id),)) for place, job_id in enumerate(ids[start::8])]
            for start in range(8)
        ]
        await driver.race(*submits)
        await driver.check()
        cancels: list[list[c.Command]] = [[c.CancelJob(job_id) for job_id in ids[start::4]] for start in range(4)]
        claims: list[list[c.Command]] = [[c.Claim(f"w{number}", ("gpu",), limit=3)] for number in range(4)]
        backwards: list[list[c.Command]] = [
            [c.CancelJob(job_id) for job_id in reversed(ids[start::3])] for start in range(3)
        ]
        await driver.race(*cancels, *claims, *backwards)
        await driver.check()
        assert {job.status for job in driver.expected.jobs.values()} == {"cancelled"}

    async def test_closing_twice_does_nothing(self, driver: Driver) -> None:
        await driver.store.close()
        await driver.store.close()

    async def test_hints_to_other_processes_never_fail(self, driver: Driver) -> None:
        await driver.store.notify([])
        await driver.store.notify(["gpu", "pool of 🚀"])
