"""Claims decided on a look that locks nothing: two round trips if the rows still stand, decided under locks if not."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ficha.core import commands as c
from ficha.core.invariants import violations
from ficha.core.policy import SECOND
from ficha.store import base as q
from ficha.store.postgres import PostgresStore
from ficha.store.postgres.optimistic import layer
from ficha.store.postgres.optimistic.statements import PostgresRowAccess
from ficha.testing import ManualClock
from tests.stores.postgres_setup import connected, jobs, leased, opened, prepare, run, sent, submit, two

CLAIM = c.Claim("w1", ("gpu",), 2)
SEEN = ["WITH", "guarded"]
LOCKED = ["BEGIN", "WITH", "WITH", "COMMIT"]


async def ready(store: PostgresStore, count: int, *others: PostgresStore) -> list[str]:
    """So many jobs in the queue, in their order; the stores know that their pool has no limit."""
    await prepare(store)
    for each in (store, *others):
        await run(each, CLAIM)
    return [outcome.job_id for _ in range(count) for outcome in await run(store, submit())]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[Any]]) -> None:
    """Has something happen between the next look and what is written on it."""
    look = PostgresRowAccess.look_at_ready

    async def look_and_act(*args: Any) -> Any:
        seen = await look(*args)
        monkeypatch.setattr(PostgresRowAccess, "look_at_ready", look)
        await act()
        return seen

    monkeypatch.setattr(PostgresRowAccess, "look_at_ready", look_and_act)


def ids(claimed: Any) -> list[str]:
    return [lease.job.id for lease in claimed.leases]


async def sound(store: PostgresStore) -> bool:
    return violations(await store.read(q.GetState())) == []


async def test_a_claim_is_two_round_trips_and_one_that_finds_nothing_is_one(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1) as store:
        await prepare(store)
        queued = [(await run(store, submit()))[0].job_id for _ in range(5)]
        # Only the first claim has to find out that there is no limit.
        [claimed], texts = await sent(store, c.Claim("w1", ("gpu",), 1))
        assert (ids(claimed), texts[0], texts[-1]) == (queued[:1], "BEGIN", "COMMIT")
        [claimed], texts = await sent(store, c.Claim("w1", ("gpu",), 1))
        assert (ids(claimed), texts) == (queued[1:2], SEEN)
        assert claimed.leases[0].payload == '{"x": 1}'
        # What a worker says of a lease in the same commit group costs nothing more.
        [claimed, beating], texts = await sent(store, CLAIM, c.Heartbeat(queued[1], 1))
        assert (ids(claimed), texts) == (queued[2:4], SEEN)
        assert beating.expires_at > 0
        [first, second], texts = await sent(store, CLAIM, c.Claim("w2", ("gpu",), 3))
        assert (ids(first), ids(second), texts) == (queued[4:], [], SEEN)
        [claimed], texts = await sent(store, CLAIM)
        assert (ids(claimed), texts) == ([], ["WITH"])
        assert [job.status for job in await jobs(store)] == ["starting"] * 5
        # The leases are remembered, as from any other claim.
        _, texts = await sent(store, *(c.Finish(key, c.Completed("{}"), epoch=1) for key in queued))
        assert texts == ["guarded"]
        assert await sound(store)


async def test_claims_from_a_pool_with_a_limit_take_their_locks_at_once(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1) as store:
        await ready(store, 4)
        await run(store, c.DeclarePool("cpu", 1))
        for _ in range(2):
            _, texts = await sent(store, c.Claim("w1", ("gpu", "cpu"), 1))
            assert texts[0] == "BEGIN"
        # A limit that was given since is seen by the first look, and known from then on.
        await run(store, c.ResizePool("gpu", 3))
        for count, first in ((1, ["WITH", "BEGIN"]), (0, ["BEGIN", "SELECT"])):
            [claimed], texts = await sent(store, CLAIM)
            assert (len(claimed.leases), texts[:2]) == (count, first)
        # And so it is when it is gone.
        await run(store, c.DeclarePool("gpu", None), c.ResizePool("gpu", None))
        [claimed], texts = await sent(store, CLAIM)
        assert (len(claimed.leases), texts[0]) == (1, "BEGIN")
        _, texts = await sent(store, CLAIM)
        assert texts == ["WITH"]


async def test_claims_that_get_many_take_their_locks_at_once(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer, "MOST_SEEN", 2)
    async with opened(migrated_url, committers=1) as store:
        await ready(store, 9)
        # It is not known before it is tried, and then expected again until fewer are found.
        for limit, count, first in ((4, 4, "WITH"), (3, 3, "BEGIN"), (1, 1, "WITH"), (9, 1, "WITH"), (9, 0, "WITH")):
            [claimed], texts = await sent(store, c.Claim("w1", ("gpu",), limit))
            assert (len(claimed.leases), texts[0]) == (count, first)


async def test_a_refusal_on_a_remembered_lease_is_not_told_without_locks(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1) as store:
        await ready(store, 0)
        job_id, epoch = await leased(store)
        [claimed, refused], texts = await sent(store, CLAIM, c.Heartbeat(job_id, epoch + 1))
        assert refused.code == "LEASE_LOST"
        assert (ids(claimed), texts[:2], texts[-1]) == ([], ["WITH", "BEGIN"], "ROLLBACK")


@pytest.mark.req("A2")
async def test_a_job_that_is_cancelled_between_look_and_write_is_not_claimed(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(migrated_url) as (mine, other):
        queued = await ready(mine, 5)
        meanwhile(monkeypatch, lambda: run(other, c.CancelJob(queued[0])))
        [claimed], texts = await sent(mine, CLAIM)
        assert (ids(claimed), texts) == (queued[1:3], [*SEEN, *LOCKED])
        # Somebody else is at work here: for a while, claims take their locks first.
        _, texts = await sent(mine, c.Claim("w1", ("gpu",), 1))
        assert texts == LOCKED
        mine._layer._contested_until = 0.0
        _, texts = await sent(mine, c.Claim("w1", ("gpu",), 1))
        assert texts == SEEN
        assert await sound(mine)


@pytest.mark.req("A2")
async def test_of_two_that_saw_the_same_jobs_one_gets_them_and_the_other_the_next(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(migrated_url) as (mine, other):
        queued = await ready(mine, 4, other)
        theirs: list[Any] = []

        async def claim() -> None:
            theirs.extend(await run(other, CLAIM))

        meanwhile(monkeypatch, claim)
        [claimed] = await run(mine, CLAIM)
        assert ids(theirs[0]) == queued[:2]
        assert ids(claimed) == queued[2:]
        assert await sound(mine)


async def test_a_job_that_is_not_taken_may_become_of_it_what_it_will(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(migrated_url) as (mine, other):
        queued = await ready(mine, 1)
        await run(mine, c.DeclarePool("cpu", None))
        await run(mine, c.Claim("w1", ("cpu",), 1))
        [later] = await run(mine, submit(pool="cpu"))
        meanwhile(monkeypatch, lambda: run(other, c.CancelJob(later.job_id)))
        [claimed], texts = await sent(mine, c.Claim("w1", ("cpu", "gpu"), 1))
        assert (ids(claimed), texts) == (queued, SEEN)


@pytest.mark.parametrize(
    ("change", "count"),
    [(c.ResizePool("gpu", 1), 1), (c.DeclarePool("gpu", 1), 1), (c.PausePool("gpu", True), 0)],
    ids=["resized", "declared", "paused"],
)
async def test_a_pool_that_changes_between_look_and_write_is_seen(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch, change: c.Command, count: int
) -> None:
    async with two(migrated_url) as (mine, other):
        queued = await ready(mine, 2)
        meanwhile(monkeypatch, lambda: run(other, change))
        [claimed], texts = await sent(mine, CLAIM)
        assert ids(claimed) == queued[:count]
        assert texts[:3] == [*SEEN, "BEGIN"]
        assert await sound(mine)


async def test_a_commit_group_that_claims_and_changes_the_pool_takes_locks(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1) as store:
        queued = await ready(store, 3)
        outcomes, texts = await sent(store, c.Claim("w1", ("gpu",), 1), c.PausePool("gpu", True), CLAIM)
        assert (ids(outcomes[0]), ids(outcomes[2])) == (queued[:1], [])
        assert texts[-1] == "COMMIT"
        # A pool that is paused is looked at, and that is all.
        [claimed], texts = await sent(store, CLAIM)
        assert (ids(claimed), texts) == ([], ["WITH"])


async def test_a_job_that_somebody_holds_is_passed_over_without_waiting(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1) as store, connected(migrated_url) as connection:
        queued = await ready(store, 3)
        await connection.execute(f"BEGIN; SELECT FROM ficha.ready WHERE job_id = '{queued[0]}' FOR UPDATE")
        async with asyncio.timeout(4):
            [claimed] = await run(store, CLAIM)
        assert ids(claimed) == queued[1:]


async def test_a_job_that_came_back_from_a_remembered_lease_is_claimed_as_it_is_now(migrated_url: str) -> None:
    clock = ManualClock()
    async with two(migrated_url, clock=clock) as (mine, other):
        await ready(mine, 0)
        job_id, epoch = await leased(mine)
        await run(other, c.Finish(job_id, c.RetryLater(1), epoch=epoch))
        clock.advance(60)
        await run(other, c.Recover(job_id))
        refused, claimed = await run(mine, c.Heartbeat(job_id, epoch), CLAIM)
        assert refused.code == "LEASE_LOST"
        assert [(lease.job.id, lease.epoch) for lease in claimed.leases] == [(job_id, epoch + 1)]
        assert await sound(mine)


async def test_a_look_that_is_long_ago_is_not_written(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a process was stopped and went on: its leases would be over before they began."""
    async with opened(migrated_url, committers=1) as store:
        [queued] = await ready(store, 1)
        look = PostgresRowAccess.look_at_ready

        async def look_long_ago(*args: Any) -> Any:
            seen = await look(*args)
            seen.snapshot.now -= 3_600 * SECOND
            return seen

        monkeypatch.setattr(PostgresRowAccess, "look_at_ready", look_long_ago)
        [claimed], texts = await sent(store, CLAIM)
        assert (ids(claimed), texts) == ([queued], [*SEEN, *LOCKED])
        [job] = await jobs(store)
        assert job.place.leased_at >= job.created_at  # type: ignore[union-attr]


@pytest.mark.req("A2")
async def test_many_processes_that_claim_at_once_share_no_job_and_lose_none(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody is careful after a loss, so that all keep getting in each other's way.
    monkeypatch.setattr(layer, "SHARED_S", 0.0)
    async with two(migrated_url) as (one, two_), two(migrated_url) as (three, four):
        stores = (one, two_, three, four)
        queued: list[str] = await ready(one, 0, *stores)
        for _ in range(3):
            queued += [outcome.job_id for outcome in await run(one, *(submit() for _ in range(40)))]

        async def claim_all(store: PostgresStore) -> list[str]:
            found: list[str] = []
            while len(await store.read(q.ListJobs(statuses=("queued",), limit=1))):
                [claimed] = await run(store, c.Claim("w", ("gpu",), 3))
                found += ids(claimed)
            return found

        found = [key for each in await asyncio.gather(*map(claim_all, stores)) for key in each]
        assert len(found) == len(queued)
        assert set(found) == set(queued)
        assert await sound(one)


# A claim that waited for the submit beside it


async def quiet(store: PostgresStore) -> None:
    """Has the store see that nothing is ready in a pool without a limit."""
    for _ in range(2):
        await run(store, CLAIM)
    assert store.may_claim_with_submit({"gpu"})


async def test_where_nothing_was_ready_a_submit_and_its_claim_are_one_round_trip(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1) as store:
        await prepare(store)
        assert not store.may_claim_with_submit({"gpu"})
        await quiet(store)
        assert not store.may_claim_with_submit({"gpu", "cpu"})
        for _ in range(2):
            [submitted, claimed], texts = await sent(store, submit(), CLAIM)
            assert (ids(claimed), texts) == ([submitted.job_id], ["guarded"])
            # Nothing is left there, so the next one can do the same, also once the job has ended.
            [finished], texts = await sent(store, c.Finish(submitted.job_id, c.Completed("{}"), epoch=1))
            assert (finished.status, texts) == ("completed", ["guarded"])
            assert store.may_claim_with_submit({"gpu"})
        # What is left over is looked for by whoever comes next.
        [first, second, claimed], texts = await sent(store, submit(), submit(), c.Claim("w1", ("gpu",), 1))
        assert texts == ["guarded"]
        assert not store.may_claim_with_submit({"gpu"})
        [left], texts = await sent(store, CLAIM)
        assert texts == SEEN
        assert {*ids(claimed), *ids(left)} == {first.job_id, second.job_id}
        assert await sound(store)


@pytest.mark.req("A2")
async def test_jobs_that_another_process_brought_first_are_claimed_first(migrated_url: str) -> None:
    async with two(migrated_url) as (mine, other):
        await prepare(mine)
        await quiet(mine)
        [earlier] = await run(other, submit())
        [submitted, claimed], texts = await sent(mine, submit(), CLAIM)
        assert ids(claimed) == [earlier.job_id, submitted.job_id]
        assert (texts[:2], texts[-1]) == (["guarded", "BEGIN"], "COMMIT")
        # Somebody else is at work here: for a while, nothing is supposed.
        assert not mine.may_claim_with_submit({"gpu"})
        assert await sound(mine)


@pytest.mark.parametrize("change", [c.PausePool("gpu", True), c.DeclarePool("gpu", 0), c.ResizePool("gpu", 0)])
async def test_a_claim_beside_a_submit_heeds_what_became_of_its_pool(migrated_url: str, change: c.Command) -> None:
    async with two(migrated_url) as (mine, other):
        await prepare(mine)
        await quiet(mine)
        await run(other, change)
        [submitted, claimed], texts = await sent(mine, submit(), CLAIM)
        assert (ids(claimed), texts[:2]) == ([], ["guarded", "BEGIN"])
        assert [(job.id, job.status) for job in await jobs(mine)] == [(submitted.job_id, "queued")]
        assert await sound(mine)


async def test_what_another_lane_forgets_meanwhile_does_no_harm(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(migrated_url) as (mine, other):
        await prepare(mine)
        await run(other, c.OpenAccount("bo", "pro", 1_000))
        await quiet(mine)
        look = PostgresRowAccess.look_at_accounts

        async def look_and_forget(*args: Any, **options: Any) -> Any:
            mine._layer.cache.pools.clear()
            return await look(*args, **options)

        # The account is not remembered, so it is looked at first.
        monkeypatch.setattr(PostgresRowAccess, "look_at_accounts", look_and_forget)
        [submitted, claimed], texts = await sent(mine, submit("bo"), CLAIM)
        assert (ids(claimed), texts) == ([submitted.job_id], ["SELECT", "guarded"])
        assert await sound(mine)


async def test_a_claim_under_locks_from_a_pool_without_a_limit_is_four_round_trips(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1, optimistic=False) as store:
        await prepare(store)
        await run(store, *(submit() for _ in range(4)))
        # Only the first claim has to find out that there is no limit.
        await run(store, c.Claim("w1", ("gpu",), 2))
        texts: list[str] = []
        async with store._writers.take() as connection:
            connection.add_query_logger(lambda logged: texts.append(logged.query.split()[0]))
        await run(store, c.Claim("w1", ("gpu",), 2))
        await asyncio.sleep(0)  # the driver logs a little later
        assert texts == ["BEGIN", "WITH", "WITH", "COMMIT"]


async def test_a_hint_that_names_no_pool_gives_no_claim_reason_to_look_harder(migrated_url: str) -> None:
    async with opened(migrated_url) as one, opened(migrated_url) as other:
        heard: asyncio.Queue[str] = asyncio.Queue()
        await one.listen(heard.put_nowait)
        for name, is_quiet in (("\x02events", True), ("\x01w1", True), ("gpu", False)):
            one._layer._is_quiet = True
            await other.notify([name])
            assert await asyncio.wait_for(heard.get(), 40) == name
            assert one._layer._is_quiet is is_quiet
