"""Commit groups decided on cached rows: written in one round trip if the rows are unchanged, under locks if not."""

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from typing import Any
from uuid import uuid4

import pytest

from ficha.core import commands as c
from ficha.core.invariants import violations
from ficha.core.needs import needs
from ficha.core.outcomes import Submitted
from ficha.core.records import Account
from ficha.store import base as q
from ficha.store.base import Transient
from ficha.store.postgres import PostgresStore
from ficha.store.postgres.optimistic import layer, row_cache
from ficha.store.postgres.optimistic.statements import PostgresRowAccess
from tests.stores.postgres_setup import (
    connected,
    heard,
    jobs,
    leased,
    opened,
    prepare,
    run,
    sent,
    submit,
    two,
    until_waiting,
)
from tests.stores.proxy import ANYTHING, COMMIT, Cut
from tests.stores.test_postgres_faults import ambiguous, given_up


async def account(store: PostgresStore, name: str = "ana") -> Account:
    found = await store.read(q.GetAccount(name))
    assert found is not None
    return found


async def test_a_submit_of_very_many_jobs_takes_the_plain_path_and_leaves_the_cached_rows_to_others(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written late, it would be refused for its old time, and all cached accounts would be dropped with it."""
    monkeypatch.setattr(layer, "MOST_JOBS", 3)
    async with two(migrated_url) as (mine, _):
        await prepare(mine)
        await run(mine, submit())
        for count, is_guarded in ((3, True), (4, False), (1, True)):
            made = [submit().jobs[0] for _ in range(count)]
            many = c.Submit("ana", tuple(made), batch_id=str(uuid4()) if count > 1 else None)
            [outcome], texts = await sent(mine, many)
            assert (outcome.jobs, "guarded" in texts) == (count, is_guarded)


async def test_what_is_remembered_costs_one_round_trip_and_what_is_not_two(migrated_url: str) -> None:
    async with two(migrated_url) as (mine, other):
        await prepare(mine)
        job_id, epoch = await leased(mine)
        for command in (
            submit(),
            c.Credit("ana", 5, "grant", key="k"),
            c.ActingAs("boss", submit()),
            c.UseApiKey(str(uuid4())),
            c.Heartbeat(job_id, epoch, starts=True),
            c.Heartbeat(job_id, epoch),
            c.SaveCheckpoint(job_id, epoch, "half", 50, "{}"),
            c.Finish(job_id, c.Completed("{}"), epoch=epoch),
        ):
            [outcome], texts = await sent(mine, command)
            assert texts == ["guarded"], command
            assert outcome.changed if hasattr(outcome, "changed") else outcome
        # Another process looks at the account first.
        _, texts = await sent(other, submit())
        assert texts == ["SELECT", "guarded"]
        assert {job.status for job in await jobs(mine)} == {"queued", "completed"}
        assert (await account(mine)).balance == 1_000 - 4 * 5 + 5
        assert [found.line.act for found in await mine.read(q.ListAudit())] == ["submit"]


@pytest.mark.req("D1")
async def test_no_refusal_is_told_on_remembered_rows(migrated_url: str) -> None:
    async with two(migrated_url) as (mine, other):
        await run(mine, c.DeclarePool("gpu", None), c.OpenAccount("ana", "pro", 3))
        await run(other, c.Credit("ana", 5, "grant"))
        [submitted] = await run(mine, submit())
        assert submitted.new_balance == 3


@pytest.mark.req("D1")
async def test_credits_that_another_process_spent_are_not_spent_again(migrated_url: str) -> None:
    async with two(migrated_url) as (mine, other):
        await run(mine, c.DeclarePool("gpu", None), c.OpenAccount("ana", "pro", 5))
        await run(other, submit())
        [refused], texts = await sent(mine, submit())
        assert refused.code == "INSUFFICIENT_CREDITS"
        assert texts[0] == "guarded"
        assert texts[-1] == "ROLLBACK"
        assert len(await jobs(mine)) == 1


async def test_what_is_decided_again_leaves_one_audit_line(migrated_url: str) -> None:
    async with two(migrated_url) as (mine, other):
        await prepare(mine)
        await run(mine, submit())
        await run(other, c.Credit("ana", 100, "grant"))
        [granted], texts = await sent(mine, c.ActingAs("boss", c.Credit("ana", 1, "grant")))
        assert texts[0] == "guarded"
        assert len(texts) > 1
        [found] = await mine.read(q.ListAudit())
        assert found.line.details == {"amount": 1, "balance": 1_096}
        assert granted.account.balance == 1_096


async def test_what_a_commit_group_would_be_decided_on_is_seen_whoever_holds_it(migrated_url: str) -> None:
    wanted = needs([submit(), c.Claim("w1", ("gpu",), 1), c.RevokeApiKey(str(uuid4()))])
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store, slots=1)
        await run(store, submit())
        await connection.execute("BEGIN; SELECT FROM ficha.accounts FOR UPDATE; SELECT FROM ficha.ready FOR UPDATE")
        await connection.execute("SELECT FROM ficha.pools FOR UPDATE")
        await connection.execute("LOCK TABLE ficha.api_keys IN SHARE ROW EXCLUSIVE MODE")
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('ficha api keys'))")
        snapshot = await store.read(q.GetSnapshot(wanted))
        assert snapshot.accounts["ana"] == await account(store)
        assert len(snapshot.ready["gpu"]) == 1
        # Nor is anything held afterwards: the other side can go on at once.
        await connection.execute("UPDATE ficha.accounts SET plan = 'solo'; COMMIT")


async def test_a_slot_that_another_process_reserved_counts(migrated_url: str) -> None:
    async with two(migrated_url) as (mine, other):
        await run(mine, c.DeclarePool("gpu", None), c.OpenAccount("ana", "single", 100))
        await run(other, c.Reserve(str(uuid4()), "ana"))
        [refused] = await run(mine, submit())
        assert refused.code == "QUOTA_EXCEEDED"


@pytest.mark.req("A6")
async def test_a_job_that_another_process_ended_is_not_ended_again(migrated_url: str) -> None:
    async with two(migrated_url) as (mine, other):
        await prepare(mine)
        job_id, epoch = await leased(mine)
        await run(other, c.Finish(job_id, c.Failed("it broke"), epoch=epoch))
        [finished] = await run(mine, c.Finish(job_id, c.Completed("{}"), epoch=epoch))
        assert (finished.changed, finished.status, finished.refunded) == (False, "failed", 5)
        assert (await account(mine)).balance == 1_000
        assert violations(await mine.read(q.GetState())) == []


async def test_a_lease_that_another_process_renewed_is_still_held(migrated_url: str) -> None:
    async with two(migrated_url) as (mine, other):
        await prepare(mine)
        job_id, epoch = await leased(mine)
        await run(other, c.Heartbeat(job_id, epoch))
        [finished], texts = await sent(mine, c.Finish(job_id, c.Completed("{}"), epoch=epoch))
        assert finished.changed
        assert texts == ["guarded", "BEGIN", "WITH", "SELECT", "WITH", "COMMIT"]


@pytest.mark.req("C1")
async def test_a_key_that_was_used_before_leads_to_the_first_job(migrated_url: str) -> None:
    async with two(migrated_url) as (mine, other):
        await prepare(mine)
        command = submit()
        [first] = await run(other, command)
        for store in (mine, other, mine):
            [again], texts = await sent(store, command)
            assert (again.job_id, again.idempotent_hit) == (first.job_id, True)
            assert "COMMIT" not in texts
        assert (await account(mine)).balance == 995


async def test_a_row_that_was_changed_by_hand_is_seen(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        await connection.execute("UPDATE ficha.accounts SET balance = 7")
        [submitted] = await run(store, submit())
        assert submitted.new_balance == 2


@pytest.mark.req("A6")
@pytest.mark.parametrize("remember", [True, False], ids=["remembered", "loaded"])
async def test_an_end_is_not_lost_to_an_edit_by_hand(migrated_url: str, remember: bool) -> None:
    async with opened(migrated_url, optimistic=remember) as store, connected(migrated_url) as connection:
        await prepare(store)
        job_id, epoch = await leased(store)
        await connection.execute("BEGIN; UPDATE ficha.jobs SET session = 'edited'")
        finish = c.Finish(job_id, c.Completed("{}"), epoch=epoch)
        finishing = asyncio.create_task(_patiently(store, finish))
        await until_waiting(migrated_url)
        await connection.execute("COMMIT")
        [finished] = await finishing
        assert finished.changed
        [job] = await jobs(store)
        assert (job.status, job.spec.session) == ("completed", "edited")
        assert violations(await store.read(q.GetState())) == []


async def test_a_row_that_somebody_holds_is_waited_for(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        await connection.execute("BEGIN; SELECT FROM ficha.accounts FOR UPDATE")
        submitting = asyncio.create_task(run(store, submit()))
        await until_waiting(migrated_url)
        assert not submitting.done()
        await connection.execute("COMMIT")
        [submitted] = await submitting
        assert submitted.new_balance == 995


@pytest.mark.parametrize("seconds", [3_600, -3_600])
async def test_a_wrong_idea_of_the_databases_clock_is_mended(migrated_url: str, seconds: int) -> None:
    async with opened(migrated_url, committers=1) as store:
        await prepare(store)
        memory = store._layer.cache
        assert memory._ahead_us is not None
        memory._ahead_us += seconds * 1_000_000
        [submitted], texts = await sent(store, submit())
        assert texts[0] == "guarded"
        assert texts[-1] == "COMMIT"
        [row] = await store.read(q.GetJobs((submitted.job_id,)))
        assert abs(row.job.created_at - time.time_ns() // 1_000) < 60_000_000
        # The account is looked at anew for a while.
        _, texts = await sent(store, submit())
        assert texts == ["SELECT", "guarded"]


async def test_nothing_cached_before_a_connection_was_lost_is_trusted_on_the_next_one(migrated_url: str) -> None:
    """The server may have crashed, and have lost commits that it had not flushed."""
    async with opened(migrated_url, committers=1) as store:
        await prepare(store)
        await leased(store)
        [submitted], texts = await sent(store, submit())
        assert texts == ["guarded"]
        cache = store._layer.cache
        assert cache.accounts
        assert cache.leases
        async with store._writers.take() as connection:
            connection.terminate()
        async with store._writers.take():
            assert (cache.accounts, cache.leases, cache.pools) == ({}, {}, {})
        [again] = await run(store, submit())
        assert again.new_balance == submitted.new_balance - 5


LOCKED_FIRST = ["BEGIN", "SELECT", "guarded", "COMMIT"]


async def test_where_even_a_fresh_look_is_old_accounts_are_locked_first(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer, "SHARED_S", 3_600.0)
    async with two(migrated_url) as (mine, other):
        await prepare(mine)
        mine._layer.cache.accounts.clear()
        look = PostgresRowAccess.look_at_accounts

        async def late_look(*args: Any, locks: bool) -> Any:
            found = await look(*args, locks=locks)
            if not locks:
                with monkeypatch.context() as undone:
                    undone.setattr(PostgresRowAccess, "look_at_accounts", look)
                    await run(other, submit())
            return found

        monkeypatch.setattr(PostgresRowAccess, "look_at_accounts", late_look)
        for _ in range(3):
            _, texts = await sent(mine, submit())
            assert texts[:3] == ["SELECT", "guarded", "BEGIN"]
            for _ in range(layer.LOCKED_GROUPS):
                _, texts = await sent(mine, submit())
                assert texts == LOCKED_FIRST


async def test_accounts_that_are_locked_first_are_read_as_whoever_held_them_left_them(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1) as store, connected(migrated_url) as connection:
        await prepare(store)
        store._layer._locked_groups = 1
        await connection.execute("BEGIN; UPDATE ficha.accounts SET balance = balance - 100")
        async with heard(store) as texts:
            submitting = asyncio.create_task(run(store, submit()))
            await until_waiting(migrated_url)
            await connection.execute("COMMIT")
            [submitted] = await submitting
        assert (submitted.new_balance, texts) == (895, LOCKED_FIRST)


async def test_where_accounts_alone_are_not_enough_they_are_not_locked_first_again(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1) as store:
        await prepare(store)
        await run(store, c.Reserve(str(uuid4()), "ana"))
        store._layer._locked_groups = 64
        _, texts = await sent(store, submit())
        assert texts[:4] == ["BEGIN", "SELECT", "ROLLBACK", "BEGIN"]
        _, texts = await sent(store, submit())
        assert texts[0] == "BEGIN"
        assert "ROLLBACK" not in texts


async def test_a_refusal_leaves_no_account_locked(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1) as store, connected(migrated_url) as connection:
        await prepare(store)
        store._layer._locked_groups = 1
        await connection.execute("UPDATE ficha.accounts SET balance = 4")
        [refused], texts = await sent(store, submit())
        assert refused.code == "INSUFFICIENT_CREDITS"
        assert texts[:4] == ["BEGIN", "SELECT", "ROLLBACK", "BEGIN"]
        await connection.execute("SELECT FROM ficha.accounts FOR UPDATE NOWAIT")


@pytest.mark.parametrize(("cut", "is_kept"), [("before commit", False), ("after commit", True)])
async def test_an_ambiguous_commit_of_locked_accounts_is_told_by_its_marker(
    migrated_url: str, cut: Cut, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked_first(monkeypatch)
    await ambiguous(migrated_url, cut, is_kept, COMMIT, optimistic=True)


async def test_a_caller_that_gives_up_leaves_no_account_locked(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked_first(monkeypatch)
    await given_up(migrated_url, "guard", monkeypatch, optimistic=True)


def locked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups lock their accounts first."""
    guess = layer.OptimisticLayer._guess

    async def guess_with_locks(self: Any, *args: Any) -> Any:
        self._locked_groups = 1
        return await guess(self, *args)

    monkeypatch.setattr(layer.OptimisticLayer, "_guess", guess_with_locks)


async def test_what_is_remembered_is_bounded(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_cache, "MOST_ACCOUNTS", 2)
    monkeypatch.setattr(row_cache, "MOST_LEASES", 3)
    async with opened(migrated_url) as store:
        await prepare(store, "ana", "bob", "cid")
        await run(store, *(submit(name) for name in ("ana", "bob", "cid", "ana")))
        [claimed] = await run(store, c.Claim("w1", ("gpu",), 4))
        assert len(claimed.leases) == 4
        assert len(store._layer.cache.accounts) == 2
        assert len(store._layer.cache.leases) == 3
        for lease in claimed.leases:
            [finished] = await run(store, c.Finish(lease.job.id, c.Completed("{}"), epoch=lease.epoch))
            assert finished.changed
        assert store._layer.cache.leases == {}


@pytest.mark.req("D1")
async def test_many_processes_at_once_spend_what_there_is_and_no_more(migrated_url: str) -> None:
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opened(migrated_url)) for _ in range(4)]
        await run(stores[0], c.DeclarePool("gpu", None), *(c.OpenAccount(name, "pro", 200) for name in ("ana", "bob")))

        async def spend(store: PostgresStore, name: str) -> int:
            accepted = 0
            for _ in range(12):
                [outcome] = await _patiently(store, submit(name))
                accepted += isinstance(outcome, Submitted)
            return accepted

        names = ["ana", "bob"] * len(stores)
        accepted = await asyncio.gather(*(spend(store, name) for store, name in zip(stores * 2, names, strict=True)))
        assert sum(accepted) == 2 * 200 // 5
        state = await stores[0].read(q.GetState())
        assert violations(state) == []
        assert {account.balance for account in state.accounts.values()} == {0}


async def _patiently(store: PostgresStore, command: c.Command) -> list[Any]:
    """As the engine does: a conflict is run again."""
    for _ in range(20):
        with suppress(Transient):
            return await run(store, command)
    raise AssertionError("twenty conflicts in a row")


@pytest.mark.parametrize(("cut", "is_kept"), [("before commit", False), ("after commit", True)])
async def test_an_ambiguous_commit_is_told_by_its_marker(migrated_url: str, cut: Cut, is_kept: bool) -> None:
    """A group on cached rows is a single message to the database, its commit included."""
    await ambiguous(migrated_url, cut, is_kept, ANYTHING, optimistic=True)


async def test_a_caller_that_gives_up_leaves_no_transaction_behind(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await given_up(migrated_url, "guard", monkeypatch, optimistic=True)
