"""List queries: every filter, the order, and pages without gaps or repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from ...core import commands as c
from ...core.outcomes import Submitted
from ...core.records import Account, Entry, Job, Leased, Pool, ReservationState, Status
from ...store.base import (
    CountCheckpoints,
    CountReservations,
    GetAccount,
    GetBatch,
    GetHistory,
    GetJobs,
    ListAccounts,
    ListCommits,
    ListEntries,
    ListJobs,
    ListKeys,
    ListPools,
    ListReservations,
    ListSteps,
    PoolCounts,
    Query,
    without_texts,
)
from ..comparing import comparable
from ..driver import Driver
from .scenes import Places, finish, lease, new_job, one_in_each_place, open_house, submit

T = TypeVar("T")


class _Page(Protocol):
    """Makes the query for a page of this size, after the last item of the previous page."""

    def __call__(self, last: Any, limit: int, /) -> Query[Any]: ...


async def assert_pages(driver: Driver, expected: list[T], page: _Page, *sizes: int) -> None:
    """Checks that pages of any size together give the whole list once."""
    for size in sizes or (1, 2, 3, len(expected) or 1, len(expected) + 1):
        found: list[T] = []
        while part := await driver.read(page(found[-1] if found else None, size)):
            assert len(part) <= size
            found += part
            assert len(found) <= len(expected), "the pages repeat themselves"
        assert comparable(found) == comparable(expected), f"in pages of {size}"


class ListingConformance:
    """Queries that list rows."""

    async def test_jobs_are_found_by_id_and_unknown_ids_left_out(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        asked = (places.dead, driver.new_id(), places.ready, places.running, places.ready)
        rows = await driver.read(GetJobs(asked))
        assert sorted(row.job.id for row in rows) == sorted({places.dead, places.ready, places.running})
        assert await driver.read(GetJobs(())) == []
        assert await driver.read(GetJobs((driver.new_id(),))) == []

    async def test_jobs_are_listed_newest_first_by_every_filter(self, driver: Driver) -> None:
        places = await _many_jobs(driver)
        stuck_at = driver.clock() - 250_000
        batch_id = driver.expected.jobs[places.ready].batch_id
        filters: list[tuple[ListJobs, Callable[[Job], bool]]] = [
            (ListJobs(), lambda job: True),
            (ListJobs(account_id="ana"), lambda job: job.account_id == "ana"),
            (ListJobs(account_id="bob"), lambda job: job.account_id == "bob"),
            (ListJobs(account_id="nobody"), lambda job: False),
            (ListJobs(tool="train"), lambda job: job.spec.tool == "train"),
            (ListJobs(pool="tpu"), lambda job: job.spec.pool == "tpu"),
            (ListJobs(batch_id=batch_id), lambda job: job.batch_id == batch_id),
            (ListJobs(batch_id=driver.new_id()), lambda job: False),
            (ListJobs(session="s1"), lambda job: job.spec.session == "s1"),
            (ListJobs(session=""), lambda job: job.spec.session == ""),
            (ListJobs(dead=True), lambda job: job.dead_at is not None),
            (ListJobs(stuck_before_at=stuck_at), lambda job: _is_silent(job, stuck_at)),
            (ListJobs(stuck_before_at=stuck_at + 1), lambda job: _is_silent(job, stuck_at + 1)),
        ]
        for query, fits in filters:
            await _assert_jobs(driver, query, fits)

    async def test_jobs_are_listed_by_status(self, driver: Driver) -> None:
        await _many_jobs(driver)
        asked: list[tuple[Status, ...]] = [
            ("queued",),
            ("starting",),
            ("running",),
            ("completed",),
            ("failed",),
            ("cancelled",),
            ("queued", "starting", "running"),
            ("completed", "failed", "cancelled"),
            ("running", "failed"),
            ("queued", "cancelled"),
        ]
        for statuses in asked:
            await _assert_jobs(driver, ListJobs(statuses=statuses), partial(_has_status, statuses))

    async def test_filters_of_jobs_apply_together(self, driver: Driver) -> None:
        places = await _many_jobs(driver)
        batch_id = driver.expected.jobs[places.ready].batch_id
        now = driver.clock()
        filters: list[tuple[ListJobs, Callable[[Job], bool]]] = [
            (
                ListJobs(account_id="bob", statuses=("queued",), session="s1"),
                lambda job: (job.account_id, job.status, job.spec.session) == ("bob", "queued", "s1"),
            ),
            (
                ListJobs(account_id="ana", pool="tpu", tool="upscale"),
                lambda job: (job.account_id, job.spec.pool, job.spec.tool) == ("ana", "tpu", "upscale"),
            ),
            (
                ListJobs(batch_id=batch_id, statuses=("cancelled", "running")),
                lambda job: job.batch_id == batch_id and job.status in ("cancelled", "running"),
            ),
            (ListJobs(dead=True, account_id="ana"), lambda job: job.dead_at is not None and job.account_id == "ana"),
            (ListJobs(dead=True, statuses=("failed",)), lambda job: job.dead_at is not None),
            (ListJobs(dead=True, statuses=("queued", "completed")), lambda job: False),
            (
                ListJobs(stuck_before_at=now + 1, statuses=("running",), pool="tpu"),
                lambda job: _is_silent(job, now + 1) and job.status == "running" and job.spec.pool == "tpu",
            ),
            (ListJobs(stuck_before_at=now + 1, statuses=("failed",)), lambda job: False),
            (ListJobs(stuck_before_at=now + 1, dead=True), lambda job: False),
        ]
        for query, fits in filters:
            await _assert_jobs(driver, query, fits)

    async def test_a_page_of_jobs_can_start_after_any_id(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        ids = sorted(driver.expected.jobs, reverse=True)
        for job_id in ids:
            rows = await driver.read(ListJobs(before=job_id, limit=1_000))
            assert [row.id for row in rows] == [other for other in ids if other < job_id]
        unknown = driver.new_id()
        assert [row.id for row in await driver.read(ListJobs(before=unknown, limit=3))] == ids[:3]

    async def test_accounts_are_listed_by_id_in_the_order_of_their_characters(self, driver: Driver) -> None:
        names = ["a", "B", "_", "aa", "Ab", "ab", "Z", "é", "z", "0", "10", "9", "~", "ﬀ", "\ufffd", "😀", "東"]
        await driver.run(*(c.OpenAccount(name, "pro", 3) for name in names))
        accounts = [driver.expected.accounts[name] for name in sorted(names)]

        def page(last: Account | None, limit: int) -> ListAccounts:
            return ListAccounts(after=None if last is None else last.id, limit=limit)

        await assert_pages(driver, accounts, page)
        assert await driver.read(ListAccounts(after="ac", limit=1)) == [driver.expected.accounts["z"]]
        assert await driver.read(GetAccount("é")) == driver.expected.accounts["é"]
        assert await driver.read(GetAccount("E")) is None

    async def test_entries_are_listed_newest_first(self, driver: Driver) -> None:
        await one_in_each_place(driver)

        for account in ("ana", "bob", "eva"):
            entries = [entry for entry in reversed(driver.expected.entries) if entry.account_id == account]

            def page(last: Entry | None, limit: int, account: str = account) -> ListEntries:
                return ListEntries(account, before_number=None if last is None else last.number, limit=limit)

            await assert_pages(driver, entries, page)
        assert await driver.read(ListEntries("nobody")) == []
        assert await driver.read(ListEntries("ana", before_number=1)) == []

    async def test_steps_are_listed_in_the_order_they_were_stored(self, driver: Driver) -> None:
        await open_house(driver)
        held, other = await lease(driver), await lease(driver)
        names = ["z", "a", "m", "Z", "10", "9", "ä"]
        await driver.run(*(c.SaveStep(held.job.id, 1, name, f'"{name}"') for name in names))
        await driver.run(c.SaveStep(other.job.id, 1, "a", "1"))
        # The order does not change if the clock is set back.
        driver.clock.advance(-5)
        await driver.run(c.SaveStep(held.job.id, 1, "y", "2"), c.SaveStep(held.job.id, 1, "b", "3"))
        steps = await driver.read(ListSteps(held.job.id))
        assert [step.name for step in steps] == [*names, "y", "b"]
        await finish(driver, held, c.Completed("1"))
        assert comparable(await driver.read(ListSteps(held.job.id))) == comparable(steps)
        assert await driver.read(ListSteps(driver.new_id())) == []
        await driver.check()

    async def test_reservations_are_listed_newest_first_as_they_are_stored(self, driver: Driver) -> None:
        await open_house(driver)
        ids = [driver.new_id() for _ in range(8)]
        await driver.run(*(c.Reserve(held, "ana" if place % 3 else "bob", 1_000) for place, held in enumerate(ids)))
        await driver.run(c.EndReservation(ids[1], "released"), c.EndReservation(ids[2], "consumed"))
        driver.clock.advance(5)
        await driver.run(c.ExpireReservation(ids[4]))
        for account in (None, "ana", "bob", "nobody"):
            held = driver.expected.reservations
            expected = [held[one] for one in reversed(ids) if account in (None, held[one].account_id)]

            def page(last: Any, limit: int, account: str | None = account) -> ListReservations:
                return ListReservations(account, before=None if last is None else last.id, limit=limit)

            await assert_pages(driver, expected, page)

    async def test_reservations_are_listed_and_counted_by_the_state_that_they_are_in_now(self, driver: Driver) -> None:
        await open_house(driver)
        ids = [driver.new_id() for _ in range(6)]
        await driver.run(*(c.Reserve(held, "bob" if held == ids[0] else "ana", 1_000) for held in ids[:5]))
        await driver.run(c.EndReservation(ids[1], "released"), c.EndReservation(ids[2], "consumed"))
        driver.clock.advance(5)
        await driver.run(c.ExpireReservation(ids[4]), c.Reserve(ids[5], "ana", 60_000))
        now = driver.clock()
        states: dict[ReservationState, list[str]] = {
            "active": [ids[5]],
            "consumed": [ids[2]],
            "expired": [ids[4], ids[3], ids[0]],
            "released": [ids[1]],
        }
        for state, expected in states.items():
            found = await driver.read(ListReservations(state=state, at=now))
            assert [held.id for held in found] == expected
        assert await driver.read(CountReservations(now)) == {state: len(held) for state, held in states.items()}
        assert await driver.read(CountReservations(now, "bob")) == {"expired": 1}
        assert await driver.read(CountReservations(now, "nobody")) == {}
        assert [held.id for held in await driver.read(ListReservations("bob", state="expired", at=now))] == [ids[0]]

    async def test_keys_are_listed_by_account_and_key(self, driver: Driver) -> None:
        await open_house(driver)
        for account in ("bob", "ana", "eva"):
            await driver.run(
                *(c.Submit(account, (new_job(driver.new_id()),), key=key) for key in ("b", "B", "a-1", "_", "~", "a")),
                c.Credit(account, 1, "grant", key="a-2"),
                c.Credit(account, 1, "grant", key="a-1"),
                c.Credit(account, 1, "adjust", key="A"),
            )
        keys = sorted(driver.expected.keys.values(), key=lambda key: (key.account_id, key.key, key.scope))
        for owner in (None, "ana", "bob", "nobody"):
            expected = [key for key in keys if owner in (None, key.account_id)]

            def page(last: Any, limit: int, owner: str | None = owner) -> ListKeys:
                after = None if last is None else (last.account_id, last.key, last.scope)
                return ListKeys(owner, after, limit)

            await assert_pages(driver, expected, page)
        named = [key for key in keys if (key.account_id, key.key) == ("ana", "a-1")]
        assert [key.scope for key in named] == ["grant", "submit"]
        assert comparable(await driver.read(ListKeys("ana", key="a-1"))) == comparable(named)
        assert await driver.read(ListKeys("ana", key="nothing")) == []

    async def test_a_key_of_each_scope_may_have_the_same_name(self, driver: Driver) -> None:
        await open_house(driver)
        await driver.run(
            c.Submit("ana", (new_job(driver.new_id()),), key="same"), c.Credit("ana", 1, "grant", key="same")
        )
        found = await driver.read(ListKeys("ana"))
        assert comparable({(key.account_id, key.scope, key.key): key for key in found}) == comparable(
            driver.expected.keys
        )

    async def test_a_batch_counts_its_jobs_by_status(self, driver: Driver) -> None:
        await open_house(driver)
        batch_id, other = driver.new_id(), driver.new_id()
        jobs = tuple(new_job(driver.new_id()) for _ in range(7))
        await driver.run(
            c.Submit("ana", jobs, batch_id=batch_id),
            c.Submit("ana", (new_job(driver.new_id(), pool="cpu"),), batch_id=other),
        )
        await driver.run(c.Claim("w1", ("gpu",), limit=5))
        await driver.run(
            c.Heartbeat(jobs[0].id, 1, starts=True),
            c.Finish(jobs[1].id, c.AcceptedByProvider("ref"), 1),
            c.Finish(jobs[2].id, c.Completed("1"), 1),
            c.Finish(jobs[3].id, c.Failed("no"), 1),
            c.CancelJob(jobs[6].id),
        )
        counts = await driver.read(GetBatch(batch_id))
        assert counts is not None
        assert counts.batch == driver.expected.batches[batch_id]
        assert counts.by_status == {
            "queued": 1,
            "starting": 1,
            "running": 2,
            "completed": 1,
            "failed": 1,
            "cancelled": 1,
        }
        assert await driver.read(CountCheckpoints(batch_id)) == {"": 4}
        await driver.run(c.SaveCheckpoint(jobs[0].id, 1, "DRAWN"), c.SaveCheckpoint(jobs[4].id, 1, "SENT"))
        saved = Counter(
            "" if job.checkpoint is None else job.checkpoint.name
            for job in driver.expected.jobs.values()
            if job.batch_id == batch_id and job.place is not None
        )
        assert saved["DRAWN"] == 1
        assert await driver.read(CountCheckpoints(batch_id)) == saved
        assert await driver.read(CountCheckpoints("no such batch")) == {}
        again = driver.new_id()
        await driver.run(c.Requeue(jobs[3].id, again))
        counts = await driver.read(GetBatch(batch_id))
        assert counts is not None
        assert (counts.batch.total, counts.by_status["queued"]) == (7, 2)
        assert await driver.read(GetBatch(driver.new_id())) is None
        assert await driver.read(GetBatch("no such batch")) is None

    async def test_pools_are_listed_by_name_with_their_occupied_slots_and_waiting_jobs(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        await driver.run(c.DeclarePool("Zoo", 0), c.DeclarePool("é", None), c.PausePool("cpu"), c.ResizePool("cpu", 9))
        assert await driver.read(ListPools()) == [
            PoolCounts(Pool("Zoo", 0), 0, 0, 0),
            PoolCounts(Pool("cpu", 100, 9, True), 0, 1, 1),
            PoolCounts(Pool("gpu", None), 0, 3, 2),
            PoolCounts(Pool("tpu", 3), 3, 0, 0),
            PoolCounts(Pool("é", None), 0, 0, 0),
        ]
        uncounted = await driver.read(ListPools(count_waiting=False))
        assert [(counts.pool.name, counts.occupied, counts.ready, counts.parked) for counts in uncounted] == [
            ("Zoo", 0, 0, 0),
            ("cpu", 0, 0, 0),
            ("gpu", 0, 0, 0),
            ("tpu", 3, 0, 0),
            ("é", 0, 0, 0),
        ]

    async def test_an_empty_store_answers_every_list_with_nothing(self, driver: Driver) -> None:
        job_id = driver.new_id()
        queries: list[Query[list[Any]]] = [
            GetJobs((job_id,)),
            ListJobs(),
            ListJobs(statuses=("queued", "running", "failed"), dead=True),
            ListAccounts(),
            ListEntries("ana"),
            GetHistory(job_id),
            ListCommits(),
            ListSteps(job_id),
            ListReservations(),
            ListKeys(),
            ListPools(),
        ]
        for query in queries:
            assert await driver.read(query) == []


def _has_status(statuses: tuple[Status, ...], job: Job) -> bool:
    return job.status in statuses


def _is_silent(job: Job, before_at: int) -> bool:
    return isinstance(job.place, Leased) and job.place.heartbeat_at < before_at


async def _many_jobs(driver: Driver) -> Places:
    """Jobs in every place, of several accounts, tools, sessions and batches, with heartbeats of different times."""
    places = await one_in_each_place(driver)
    batch_id = driver.new_id()
    await driver.run(
        *(
            c.Submit(
                account,
                (new_job(driver.new_id(), tool=tool, session=session),),
                batch_id=None if account == "eva" else batch_id,
            )
            for account in ("ana", "bob", "eva")
            for tool in ("upscale", "train")
            for session in (None, "", "s1")
        )
    )
    ready = new_job(driver.new_id(), session="s1")
    await driver.one(c.Submit("ana", (ready,), batch_id=batch_id), Submitted)
    await submit(driver, tool="train", pool="tpu")
    claim = await driver.run(c.ResizePool("tpu", 10), c.Claim("w9", ("gpu", "tpu"), limit=4))
    assert claim
    driver.clock.advance(0.25)
    await driver.run(c.Heartbeat(places.running, 1), c.CancelJob(ready.id))
    last = new_job(driver.new_id(), session="s1")
    await driver.one(c.Submit("ana", (last,), batch_id=batch_id), Submitted)
    return replace(places, ready=last.id)


async def _assert_jobs(driver: Driver, query: ListJobs, fits: Callable[[Job], bool]) -> None:
    state = driver.expected
    expected = [
        without_texts(state.jobs[job_id]) for job_id in sorted(state.jobs, reverse=True) if fits(state.jobs[job_id])
    ]

    def page(last: Job | None, limit: int) -> ListJobs:
        return replace(query, before=None if last is None else last.id, limit=limit)

    await assert_pages(driver, expected, page, 2, 1_000)
