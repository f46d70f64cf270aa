"""A commit group gets exactly the rows that its needs name: with less a rule would fail, and it gets no more."""

from __future__ import annotations

from ...core import commands as c
from ...core.invariants import rows_of
from ...core.needs import KeyName, Needs
from ...core.outcomes import Claimed, Submitted
from ...core.records import AccountRows, Parked
from ...core.snapshot import Snapshot
from ..comparing import comparable
from ..driver import Driver
from .scenes import lease, new_job, one_in_each_place, open_house, submit


async def assert_loaded(driver: Driver, wanted: Needs, expected: Snapshot) -> None:
    found = comparable(await driver.load(wanted))
    for part, value in comparable(expected).items():
        assert found[part] == value, part


class LoadingConformance:
    """What `transact` passes to `decide`."""

    async def test_no_needs_load_nothing_but_the_time(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        await assert_loaded(driver, Needs(), Snapshot(driver.clock()))
        driver.clock.advance(0.000_001)
        await assert_loaded(driver, Needs(), Snapshot(driver.clock()))

    async def test_what_does_not_exist_is_loaded_as_missing(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        job, other, held = driver.new_id(), driver.new_id(), driver.new_id()
        await assert_loaded(
            driver,
            Needs(
                accounts={"nobody"},
                jobs={job},
                owned_jobs={other},
                payloads={other},
                steps={(job, "step")},
                keys={("nobody", "submit", "key"), ("ana", "grant", "key")},
                reservations={held},
                reservations_of={"nobody"},
                parked_of={"nobody"},
                pools={"nowhere"},
                ready={"nowhere": 5},
                contents={("upscale", "unknown")},
                keyed={("Leader", "duty")},
            ),
            Snapshot(
                driver.clock(),
                accounts={"nobody": None},
                jobs={job: None, other: None},
                steps={(job, "step"): None},
                keys={("nobody", "submit", "key"): None, ("ana", "grant", "key"): None},
                reservations={held: None},
                reservations_of={"nobody": []},
                parked={"nobody": []},
                pools={"nowhere": None},
                occupied={"nowhere": 0},
                ready={"nowhere": []},
                contents={("upscale", "unknown"): None},
                keyed={("Leader", "duty"): None},
            ),
        )

    async def test_a_job_named_alone_is_loaded_without_its_account(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        expected = driver.expected
        for job_id in (places.ready, places.parked, places.running, places.awaiting, places.dead):
            snapshot = Snapshot(driver.clock(), jobs={job_id: expected.jobs[job_id]})
            await assert_loaded(driver, Needs(jobs={job_id}), snapshot)

    async def test_an_owned_job_brings_its_account_and_only_on_request_its_payload(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        expected = driver.expected
        for job_id in (places.ready, places.delayed, places.running, places.awaiting, places.dead):
            snapshot = Snapshot(
                driver.clock(),
                accounts={"ana": expected.accounts["ana"]},
                jobs={job_id: expected.jobs[job_id]},
                parked={"ana": []},
            )
            await assert_loaded(driver, Needs(owned_jobs={job_id}), snapshot)
            snapshot.payloads = {job_id: expected.payloads[job_id]}
            await assert_loaded(driver, Needs(owned_jobs={job_id}, payloads={job_id}), snapshot)

    async def test_each_owned_job_brings_two_parked_jobs_of_its_account_in_claim_order(self, driver: Driver) -> None:
        await open_house(driver)
        first = await submit(driver, "bob")
        driver.clock.advance(1)
        late = await submit(driver, "bob", priority=5)
        parked = [await submit(driver, "bob") for _ in range(5)]
        driver.clock.advance(1)
        early = await submit(driver, "bob", priority=-5)
        delayed = new_job(driver.new_id(), priority=-9)
        await driver.one(c.Submit("bob", (delayed,), delay_ms=1), Submitted)
        in_order = [early, *parked, late]
        jobs = driver.expected.jobs
        for owned, count in (
            ({first}, 2),
            ({delayed.id}, 2),
            ({first, late}, 4),
            ({first, late, early}, 6),
            ({first, late, early, delayed.id}, 7),
        ):
            await assert_loaded(
                driver,
                Needs(owned_jobs=owned),
                Snapshot(
                    driver.clock(),
                    accounts={"bob": driver.expected.accounts["bob"]},
                    jobs={job_id: jobs[job_id] for job_id in {*owned, *in_order[:count]}},
                    parked={"bob": in_order[:count]},
                ),
            )

    async def test_parked_jobs_are_loaded_for_each_account_by_itself(self, driver: Driver) -> None:
        await open_house(driver)
        await driver.run(c.OpenAccount("bo", "free", 100), c.OpenAccount("bobby", "pair", 100))
        named: dict[str, str] = {}
        parked: dict[str, list[str]] = {}
        for account in ("bob", "bo", "bobby"):
            named[account] = await submit(driver, account)
            ids = [await submit(driver, account) for _ in range(5)]
            parked[account] = [job for job in ids if isinstance(driver.expected.jobs[job].place, Parked)]
        snapshot = await driver.load(Needs(owned_jobs=set(named.values())))
        assert snapshot.parked == {account: ids[:2] for account, ids in parked.items()}
        await driver.run(c.ChangePlan("bob", "pro"))
        await driver.check()

    async def test_all_parked_jobs_of_an_account_are_loaded_on_request(self, driver: Driver) -> None:
        await open_house(driver)
        first = await submit(driver, "bob")
        parked = [await submit(driver, "bob") for _ in range(7)]
        delayed = new_job(driver.new_id())
        await driver.one(c.Submit("bob", (delayed,), delay_ms=1), Submitted)
        snapshot = Snapshot(
            driver.clock(),
            accounts={"bob": driver.expected.accounts["bob"]},
            jobs={job_id: driver.expected.jobs[job_id] for job_id in parked},
            parked={"bob": parked},
        )
        await assert_loaded(driver, Needs(accounts={"bob"}, parked_of={"bob"}), snapshot)
        snapshot.jobs[first] = driver.expected.jobs[first]
        await assert_loaded(driver, Needs(accounts={"bob"}, parked_of={"bob"}, owned_jobs={first}), snapshot)

    async def test_the_rows_of_an_account_are_counted_on_request(self, driver: Driver) -> None:
        await open_house(driver)
        await driver.run(c.OpenAccount("bobby", "pair", 100))
        for account in ("bob", "bobby"):
            for _ in range(4):
                await submit(driver, account)
        await driver.one(c.Submit("bob", (new_job(driver.new_id()),), delay_ms=1), Submitted)
        await driver.run(c.Claim("w1", ("gpu",), 1), c.Reserve(driver.new_id(), "bob"))
        await driver.run(c.BeginFile(driver.new_id(), "bob", "cat.png", least=7))
        loaded = await driver.load(Needs(accounts={"bob", "bobby"}, rows_of={"bob", "bobby"}))
        assert loaded.rows_of == {name: rows_of(driver.expected, name) for name in ("bob", "bobby")}
        assert loaded.rows_of["bob"].files == 1
        nothing = await driver.load(Needs(accounts={"nobody"}, rows_of={"nobody"}))
        assert nothing.rows_of == {"nobody": AccountRows("nobody")}

    async def test_an_account_named_without_a_job_has_an_empty_list_of_parked_jobs(self, driver: Driver) -> None:
        # Rules add the jobs that are parked within the commit group to this list, so it must exist.
        await open_house(driver)
        await submit(driver, "bob")
        await submit(driver, "bob")
        await assert_loaded(
            driver,
            Needs(accounts={"bob"}),
            Snapshot(driver.clock(), accounts={"bob": driver.expected.accounts["bob"]}, parked={"bob": []}),
        )

    async def test_a_key_brings_the_job_that_it_led_to(self, driver: Driver) -> None:
        await open_house(driver)
        jobs = [new_job(driver.new_id()) for _ in range(2)]
        await driver.run(
            c.Submit("ana", tuple(jobs), key="k", batch_id=driver.new_id()),
            c.Credit("ana", 5, "grant", key="k"),
            c.Submit("bob", (new_job(driver.new_id()),), key="k"),
        )
        name: KeyName = ("ana", "submit", "k")
        granted: KeyName = ("ana", "grant", "k")
        await assert_loaded(
            driver,
            Needs(keys={name, granted}),
            Snapshot(
                driver.clock(),
                jobs={jobs[0].id: driver.expected.jobs[jobs[0].id]},
                keys={name: driver.expected.keys[name], granted: driver.expected.keys[granted]},
            ),
        )

    async def test_a_reservation_brings_its_account(self, driver: Driver) -> None:
        await open_house(driver)
        held = driver.new_id()
        await driver.run(c.Reserve(held, "ana"), c.Reserve(driver.new_id(), "ana"))
        await assert_loaded(
            driver,
            Needs(reservations={held}),
            Snapshot(
                driver.clock(),
                accounts={"ana": driver.expected.accounts["ana"]},
                reservations={held: driver.expected.reservations[held]},
                parked={"ana": []},
            ),
        )

    async def test_the_active_reservations_of_an_account_are_loaded_expired_or_not(self, driver: Driver) -> None:
        await open_house(driver)
        mine = [driver.new_id() for _ in range(5)]
        await driver.run(
            *(c.Reserve(held, "ana", ttl_ms=1_000) for held in mine),
            c.Reserve(driver.new_id(), "bob"),
            c.EndReservation(mine[0], "consumed"),
            c.EndReservation(mine[1], "released"),
        )
        driver.clock.advance(2)
        await driver.run(c.ExpireReservation(mine[2]))
        snapshot = await driver.load(Needs(accounts={"ana"}, reservations_of={"ana", "eva"}))
        assert {key: {held.id for held in found} for key, found in snapshot.reservations_of.items()} == {
            "ana": set(mine[3:]),
            "eva": set(),
        }
        assert all(held == driver.expected.reservations[held.id] for held in snapshot.reservations_of["ana"])

    async def test_steps_are_loaded_by_job_and_name(self, driver: Driver) -> None:
        await open_house(driver)
        one, two = await lease(driver), await lease(driver)
        await driver.run(c.SaveStep(one.job.id, 1, "a", "1"), c.SaveStep(two.job.id, 1, "b", "2"))
        snapshot = await driver.load(Needs(steps={(one.job.id, "a"), (one.job.id, "b"), (two.job.id, "b")}))
        assert snapshot.steps == {(one.job.id, "a"): "1", (one.job.id, "b"): None, (two.job.id, "b"): "2"}

    async def test_ready_candidates_come_in_claim_order_with_payload_and_checkpoint(self, driver: Driver) -> None:
        await open_house(driver)
        again = await lease(driver, pool="gpu", payload='{"again": true}')
        await driver.run(c.SaveCheckpoint(again.job.id, 1, "HALF", 50, '{"page": 3}'))
        driver.clock.advance(60)
        # All that follow are created at the same instant, so for equal priorities the id decides.
        ids = [driver.new_id() for _ in range(6)]
        shuffled = [ids[place] for place in (3, 0, 5, 1, 4, 2)]
        await driver.run(
            c.Recover(again.job.id),
            *(c.Submit("ana", (new_job(job_id, payload=f'"{job_id}"'),)) for job_id in shuffled),
        )
        last, best = await submit(driver, priority=1), await submit(driver, priority=-1)
        await submit(driver, pool="cpu", priority=-50)
        in_order = [best, again.job.id, *ids, last]
        for limit in (1, 2, 5, 9, 100):
            listed = in_order[:limit]
            await assert_loaded(
                driver,
                Needs(pools={"gpu"}, ready={"gpu": limit}, suspects={"gpu"}),
                Snapshot(
                    driver.clock(),
                    jobs={job_id: driver.expected.jobs[job_id] for job_id in listed},
                    payloads={job_id: driver.expected.payloads[job_id] for job_id in listed},
                    pools={"gpu": driver.expected.pools["gpu"]},
                    occupied={"gpu": 0},
                    ready={"gpu": listed},
                ),
            )
        assert driver.expected.jobs[again.job.id].checkpoint is not None

    async def test_parked_jobs_come_with_their_payload_where_ready_ones_are_wanted_too(self, driver: Driver) -> None:
        await open_house(driver)
        first = await submit(driver, "bob", payload='"first"')
        parked = [await submit(driver, "bob", payload=f'"parked {number}"') for number in range(3)]
        await assert_loaded(
            driver,
            Needs(owned_jobs={first}, payloads={first}, pools={"cpu"}, ready={"cpu": 1}),
            Snapshot(
                driver.clock(),
                accounts={"bob": driver.expected.accounts["bob"]},
                jobs={job_id: driver.expected.jobs[job_id] for job_id in (first, *parked[:2])},
                payloads={job_id: driver.expected.payloads[job_id] for job_id in (first, *parked[:2])},
                parked={"bob": parked[:2]},
                pools={"cpu": driver.expected.pools["cpu"]},
                occupied={"cpu": 0},
                ready={"cpu": []},
            ),
        )

    async def test_what_a_group_brings_back_to_the_queue_can_be_claimed_in_it(self, driver: Driver) -> None:
        await open_house(driver)
        expired = await lease(driver, payload='"expired"')
        finished = await lease(driver, "bob", payload='"finished"')
        promoted = await submit(driver, "bob", pool="cpu", payload='"promoted"')
        driver.clock.advance(60)
        *_, claimed = await driver.run(
            c.Recover(expired.job.id), c.Finish(finished.job.id, c.Completed("1"), 1), c.Claim("w2", ("cpu",), limit=5)
        )
        assert isinstance(claimed, Claimed)
        assert [(held.job.id, held.payload) for held in claimed.leases] == [
            (expired.job.id, '"expired"'),
            (promoted, '"promoted"'),
        ]
        await driver.check()

    async def test_candidates_of_several_pools_are_listed_apart(self, driver: Driver) -> None:
        await open_house(driver)
        gpu = [await submit(driver) for _ in range(3)]
        cpu = [await submit(driver, pool="cpu") for _ in range(3)]
        snapshot = await driver.load(Needs(pools={"gpu", "cpu", "tpu"}, ready={"gpu": 1, "cpu": 5, "tpu": 2}))
        assert snapshot.ready == {"gpu": gpu[:1], "cpu": cpu, "tpu": []}
        assert set(snapshot.jobs) == {*gpu[:1], *cpu}
        claimed = await driver.one(c.Claim("w1", ("cpu", "gpu"), limit=4), Claimed)
        assert [held.job.id for held in claimed.leases] == [*gpu, *cpu][:4]

    async def test_only_ready_jobs_are_candidates(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        snapshot = await driver.load(Needs(ready={"gpu": 100, "cpu": 100, "tpu": 100}, suspects={"cpu"}))
        assert places.ready in snapshot.ready["gpu"]
        assert places.ageing in snapshot.ready["gpu"]
        assert snapshot.ready["cpu"] == [places.recovered]
        assert snapshot.ready["tpu"] == []
        assert len(snapshot.ready["gpu"]) == 3

    async def test_suspects_are_candidates_only_where_they_are_wanted(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        assert (await driver.load(Needs(ready={"cpu": 1}))).ready == {"cpu": []}
        after = await submit(driver, pool="cpu")
        wanted = Needs(ready={"cpu": 1, "gpu": 1}, suspects={"cpu"})
        assert (await driver.load(wanted)).ready["cpu"] == [places.recovered]
        assert (await driver.load(Needs(ready={"cpu": 1}))).ready == {"cpu": [after]}

    async def test_occupied_slots_of_a_limited_pool_are_those_leased_and_those_with_a_provider(
        self, driver: Driver
    ) -> None:
        await one_in_each_place(driver)
        await driver.run(c.ResizePool("gpu", 50))
        wanted = Needs(pools={"gpu", "cpu", "tpu"}, ready={"gpu": 1, "cpu": 1, "tpu": 1})
        assert (await driver.load(wanted)).occupied == {"gpu": 0, "cpu": 0, "tpu": 3}
        claimed = await driver.one(c.Claim("w1", ("gpu", "cpu"), limit=3), Claimed)
        await driver.run(c.Finish(claimed.leases[0].job.id, c.AcceptedByProvider("ref"), claimed.leases[0].epoch))
        assert (await driver.load(wanted)).occupied == {"gpu": 2, "cpu": 1, "tpu": 3}
        await driver.run(*(c.CancelJob(held.job.id) for held in claimed.leases))
        assert (await driver.load(wanted)).occupied == {"gpu": 0, "cpu": 0, "tpu": 3}

    async def test_a_pool_that_gets_a_limit_counts_what_runs_already_within_the_same_group(
        self, driver: Driver
    ) -> None:
        await open_house(driver)
        for _ in range(6):
            await submit(driver)
        await driver.one(c.Claim("w1", ("gpu",), limit=2), Claimed)
        for limited in (c.ResizePool("gpu", 3), c.DeclarePool("gpu", 4)):
            await driver.run(c.ResizePool("gpu", None))
            _, claimed = await driver.run(limited, c.Claim("w2", ("gpu",), limit=9))
            assert isinstance(claimed, Claimed)
            assert len(claimed.leases) == 1
        await driver.check()
