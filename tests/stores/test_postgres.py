"""What is particular to the PostgreSQL store: locks, views, connections, and transactions that others own."""

import asyncio
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from ficha.core import commands as c
from ficha.core.decide import decide
from ficha.core.needs import Needs, needs
from ficha.core.records import Leased, Pool
from ficha.core.snapshot import Changes, Snapshot
from ficha.store import base as q
from ficha.store.base import StoreError, Transient
from ficha.store.postgres import PostgresStore, load
from ficha.store.postgres.layer import Layer
from tests.stores.postgres_setup import (
    POLICY,
    connected,
    jobs,
    leased,
    look,
    opened,
    prepare,
    run,
    submit,
    until_waiting,
)
from tests.support.postgres import Server, new_database

ADD_COMMIT = """
INSERT INTO ficha.commits (at, size, events) VALUES (now(), 0, '[]') RETURNING number
"""


async def test_a_commit_group_under_locks_is_five_round_trips(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1, optimistic=False) as store:
        await prepare(store)
        texts: list[str] = []
        async with store._writers.take() as connection:
            connection.add_query_logger(lambda logged: texts.append(logged.query.split()[0]))
        await run(store, *(submit() for _ in range(20)))
        await asyncio.sleep(0)  # the driver logs a little later
        assert texts == ["BEGIN", "WITH", "WITH", "WITH", "COMMIT"]
        del texts[:]
        await run(store, c.CancelJob(str(uuid4())))
        await asyncio.sleep(0)
        assert texts == ["BEGIN", "WITH", "SELECT", "ROLLBACK"]


async def test_a_limit_that_another_process_gives_a_pool_holds_for_the_next_claim(migrated_url: str) -> None:
    async with opened(migrated_url) as one, opened(migrated_url) as other:
        await prepare(one)
        await run(one, *(submit() for _ in range(6)))
        [before] = await run(one, c.Claim("w1", ("gpu",), 1))
        await run(other, c.ResizePool("gpu", 3))
        claims = [run(store, c.Claim("w", ("gpu",), 2)) for store in (one, other, one, other)]
        found = await asyncio.gather(*claims)
        assert sum(len(claimed.leases) for claimed in (before, *(claimed for [claimed] in found))) == 3


async def test_values_are_kept_in_native_types_and_to_the_microsecond(migrated_url: str) -> None:
    now = 4_102_444_799_999_999
    async with opened(migrated_url, clock=lambda: now) as store:
        await prepare(store)
        [submitted] = await run(store, submit())
        [row] = await store.read(q.GetJobs((submitted.job_id,)))
        assert row.job.created_at == now
        async with connected(migrated_url) as connection:
            found: Any = await connection.fetchrow(
                "SELECT pg_typeof(id)::text, pg_typeof(payload)::text, pg_typeof(created_at)::text, created_at::text "
                "FROM ficha.jobs"
            )
            assert tuple(found) == ("uuid", "json", "timestamp with time zone", "2099-12-31 23:59:59.999999+00")


async def test_without_a_clock_of_its_own_time_is_the_databases(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        text = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        before = await connection.fetchval(text)
        snapshot = await look(store, Needs())
        due = await store.read(q.GetDue(1, 1))
        assert before <= snapshot.now <= due.now <= await connection.fetchval(text)


async def test_an_id_that_is_no_uuid_names_nothing(migrated_url: str) -> None:
    async with opened(migrated_url) as store:
        odd = ["x", str(uuid4()).upper()]
        wanted = Needs(jobs=set(odd), owned_jobs=set(odd), payloads=set(odd), steps={("x", "s")}, reservations=set(odd))
        snapshot = await look(store, wanted)
        assert snapshot.jobs == dict.fromkeys(odd)
        assert snapshot.reservations == dict.fromkeys(odd)
        assert snapshot.steps == {("x", "s"): None}


async def test_two_claims_at_once_take_different_jobs_and_do_not_wait(migrated_url: str) -> None:
    async with opened(migrated_url) as one, opened(migrated_url) as other:
        await prepare(one)
        made = {outcome.job_id for outcome in await run(one, *(submit() for _ in range(4)))}
        taken: list[str] = []

        async def claim_meanwhile() -> None:
            [claimed] = await run(other, c.Claim("w2", ("gpu",), 2))
            taken.extend(lease.job.id for lease in claimed.leases)

        # The first claim's rows are locked, and the second runs to its end before it commits.
        async with connected(migrated_url) as connection, connection.transaction():
            snapshot = await load.load(connection, Needs(pools={"gpu"}, ready={"gpu": 2}), None, Layer())
            await asyncio.wait_for(claim_meanwhile(), 10)
        assert len(snapshot.ready["gpu"]) == len(taken) == 2
        assert {*snapshot.ready["gpu"], *taken} == made


async def test_claims_from_a_limited_pool_take_turns(migrated_url: str) -> None:
    async with opened(migrated_url) as one, opened(migrated_url) as other:
        await prepare(one, slots=3)
        await run(one, *(submit() for _ in range(9)))
        claims = [run(store, c.Claim("w", ("gpu",), 2)) for store in (one, other, one, other)]
        found = await asyncio.gather(*claims)
        assert sum(len(claimed.leases) for [claimed] in found) == 3


async def test_a_job_that_is_claimed_while_it_is_being_locked_is_read_again(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        [submitted] = await run(store, submit())
        claim = connection.transaction()
        await claim.start()
        await connection.execute("""
            WITH gone AS (DELETE FROM ficha.ready RETURNING *)
            INSERT INTO ficha.leases (
                job_id, leased_at, heartbeat_at, expires_at, deadline_at, started_at, epoch, attempts, recoveries,
                events, late_finishes, callbacks, account_id, pool, status, worker
            )
            SELECT
                job_id, now(), now(), now(), now(), now(), 1, 0, 0, 2, 0, 0, account_id, pool, 'starting', 'w'
            FROM gone
        """)
        looking = asyncio.create_task(look(store, Needs(owned_jobs={submitted.job_id})))
        await until_waiting(migrated_url)
        await claim.commit()
        job = (await looking).jobs[submitted.job_id]
        assert job is not None
        assert isinstance(job.place, Leased)
        assert (job.status, job.epoch) == ("starting", 1)


async def test_a_view_that_stays_torn_is_given_up(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(migrated_url) as store:
        monkeypatch.setattr(load, "torn", lambda *_: True)
        with pytest.raises(Transient, match="3 times"):
            await look(store, Needs(jobs={str(uuid4())}))


async def test_what_the_holder_of_a_lease_wrote_is_seen_after_waiting_for_it(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        job_id, epoch = await leased(store)
        first = connection.transaction()
        await first.start()
        await connection.execute("SELECT FROM ficha.leases FOR UPDATE")
        await connection.execute(
            "INSERT INTO ficha.steps (job_id, name, saved_at, result) VALUES ($1, 's', now(), '1')", job_id
        )
        saving = asyncio.create_task(run(store, c.SaveStep(job_id, epoch, "s", "2")))
        await until_waiting(migrated_url)
        await first.commit()
        [saved] = await saving
        assert saved.result_json == "1"


async def test_an_account_is_loaded_as_the_holder_of_its_lock_left_it(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        spending = connection.transaction()
        await spending.start()
        await connection.execute("UPDATE ficha.accounts SET balance = 7, plan = 'solo'")
        looking = asyncio.create_task(look(store, Needs(accounts={"ana"})))
        await until_waiting(migrated_url)
        await spending.commit()
        account = (await looking).accounts["ana"]
        assert account is not None
        assert (account.balance, account.plan, account.entries) == (7, "solo", 1)


async def test_accounts_are_locked_before_jobs_and_jobs_before_pools(migrated_url: str) -> None:
    free = {
        "accounts": "SELECT FROM ficha.accounts FOR UPDATE NOWAIT",
        "leases": "SELECT FROM ficha.leases FOR UPDATE NOWAIT",
        "pools": "SELECT FROM ficha.pools FOR UPDATE NOWAIT",
    }
    async with opened(migrated_url) as store:
        await prepare(store, slots=5)
        job_id, _ = await leased(store)
        for place, table in enumerate(free):
            async with connected(migrated_url) as holder, connected(migrated_url) as other:
                held = holder.transaction()
                await held.start()
                await holder.execute(f"SELECT FROM ficha.{table} FOR UPDATE")
                looking = asyncio.create_task(look(store, Needs(owned_jobs={job_id}, pools={"gpu"}, ready={"gpu": 1})))
                await until_waiting(migrated_url)
                for earlier in list(free)[:place]:
                    with pytest.raises(asyncpg.LockNotAvailableError):
                        await other.execute(free[earlier])
                for later in list(free)[place + 1 :]:
                    await other.execute(free[later])
                await held.rollback()
                await looking


async def test_a_row_that_another_commit_group_made_first_is_not_overwritten(migrated_url: str) -> None:
    async with opened(migrated_url) as one, opened(migrated_url) as other:
        started = asyncio.Event()

        async def elect_slowly() -> None:
            async with connected(migrated_url) as connection, connection.transaction():
                await connection.execute(
                    "INSERT INTO ficha.leaders VALUES ('sweeper', 'w1', now() + interval '5 minutes')"
                )
                started.set()
                await until_waiting(migrated_url)

        electing = asyncio.create_task(elect_slowly())
        await started.wait()
        with pytest.raises(Transient, match="inserted the same row first"):
            await run(other, c.Elect("sweeper", "w2", 1000))
        await electing
        [elected] = await run(one, c.Elect("sweeper", "w2", 1000))
        assert elected.owner == "w1"


async def test_a_pool_changed_by_a_commit_group_that_also_claims_is_locked_too(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as connection:
        await prepare(store)
        pausing = connection.transaction()
        await pausing.start()
        await connection.execute("UPDATE ficha.pools SET paused = true")
        resizing = asyncio.create_task(run(store, c.ResizePool("gpu", 2), c.Claim("w", ("gpu",))))
        await until_waiting(migrated_url)
        await pausing.commit()
        await resizing
        [counted] = await store.read(q.ListPools())
        assert counted.pool == Pool("gpu", None, 2, paused=True)


async def test_a_commit_group_may_run_in_the_callers_transaction(postgres_url: str) -> None:
    async with opened(postgres_url) as store, connected(postgres_url) as connection:
        await prepare(store)
        # Whatever the caller has set up on the connection does not matter.
        await connection.set_type_codec("json", encoder=str, decoder=str, schema="pg_catalog")
        await connection.set_type_codec("uuid", encoder=str, decoder=str, schema="pg_catalog")
        await connection.execute("CREATE TABLE orders (id int)")

        async def order(commands: list[c.Command]) -> None:
            await connection.execute("INSERT INTO orders VALUES (1)")
            await store.transact_within(connection, needs(commands), lambda s: decide(s, commands, POLICY), q.no_hints)

        undone = connection.transaction()
        await undone.start()
        await order([submit()])
        await undone.rollback()
        assert await jobs(store) == []
        async with connection.transaction():
            await order([submit()])
        assert len(await jobs(store)) == 1
        with pytest.raises(StoreError, match="not in a transaction"):
            await store.transact_within(connection, Needs(), lambda _: (Changes(), []), q.no_hints)


async def test_nothing_depends_on_prepared_statements(migrated_url: str) -> None:
    async with opened(migrated_url, prepared=False) as store, connected(migrated_url) as connection:
        await prepare(store)
        job_id, epoch = await leased(store)
        await run(store, c.Finish(job_id, c.Completed("1"), epoch))
        assert [job.status for job in await jobs(store)] == ["completed"]
        await store.read(q.GetState())
        # Nor is anything left behind in a session that a pooler would hand to somebody else.
        async with store._writers.take() as used:
            assert await used.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE statement !~ 'pg_prep'") == 0
            for setting in ("lock_timeout", "enable_seqscan", "plan_cache_mode"):
                text = "SELECT current_setting($1)"
                assert await used.fetchval(text, setting) == await connection.fetchval(text, setting)


async def test_what_decide_raises_goes_through_and_nothing_is_kept(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1) as store:

        def failing(snapshot: Snapshot) -> q.Decision:
            raise ValueError("a bug")

        committer = str(uuid4())
        with pytest.raises(ValueError, match="a bug"):
            await store.transact(committer, 1, Needs(accounts={"ana"}), failing)
        assert not await store.committed(committer, 1)
        await prepare(store)


async def test_text_that_the_database_cannot_hold_is_refused_with_words(migrated_url: str) -> None:
    async with opened(migrated_url) as store:
        for name in ("nul \0", "half a pair \ud800"):
            with pytest.raises(StoreError, match=r"refused"):
                await run(store, c.OpenAccount(name, "pro"))
        await prepare(store)


async def test_hints_are_heard_in_other_processes_until_the_store_is_closed(migrated_url: str) -> None:
    async with opened(migrated_url) as one, opened(migrated_url) as other:
        heard: asyncio.Queue[str] = asyncio.Queue()
        await other.listen(heard.put_nowait)
        await one.notify(["gpu", "cpu", "gpu"])
        assert [await asyncio.wait_for(heard.get(), 40) for _ in range(2)] == ["cpu", "gpu"]
        async with connected(migrated_url) as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE query ILIKE 'LISTEN%' AND datname = current_database()"
            )
        while heard.empty():
            await one.notify(["again"])
            await asyncio.sleep(0.02)
        assert await heard.get() == "again"


async def test_hints_may_go_out_with_a_commit_and_never_without_it(migrated_url: str) -> None:
    async with opened(migrated_url, committers=1) as one, opened(migrated_url, committers=1) as other:
        heard: asyncio.Queue[str] = asyncio.Queue()
        await other.listen(heard.put_nowait)

        async def group(name: str, *commands: c.Command) -> None:
            def decided(snapshot: Snapshot) -> q.Decision:
                return decide(snapshot, commands, POLICY)

            done = await one.transact(str(uuid4()), 1, needs(commands), decided, lambda changes: [name, "also"])
            assert list(done.hints) == ([name, "also"] if done.changes else [])

        # Under locks, then on what is remembered, then on what somebody else has changed since.
        await group("first", c.DeclarePool("gpu", None), c.OpenAccount("ana", "pro", 100))
        await group("second", submit())
        await run(other, c.Credit("ana", 5, "grant"))
        await group("third", submit())
        with pytest.raises(StoreError):
            await group("refused", c.OpenAccount("a\x00b", "pro"))
        await group("nothing", c.CancelJob(str(uuid4())))
        await one.notify(["last"])
        names: list[str] = []
        while "last" not in names:
            names.append(await asyncio.wait_for(heard.get(), 40))
        assert names == ["also", "first", "also", "second", "also", "third", "last"]


async def test_nobody_is_woken_by_a_hint_of_its_own(migrated_url: str) -> None:
    async with opened(migrated_url) as one, opened(migrated_url) as other:
        heard: asyncio.Queue[str] = asyncio.Queue()
        await one.listen(heard.put_nowait)
        await one.notify(["gpu"])
        await other.notify(["cpu"])
        async with connected(migrated_url) as connection:
            await connection.execute("SELECT pg_notify('ficha.hints', 'by hand')")
        assert [await asyncio.wait_for(heard.get(), 40) for _ in range(2)] == ["cpu", "by hand"]


async def test_whoever_may_still_fill_a_gap_below_the_last_commit_is_named_until_it_has(migrated_url: str) -> None:
    async with opened(migrated_url) as store, connected(migrated_url) as slow, connected(migrated_url) as quick:
        assert await store.read(q.GetHorizon()) == q.Horizon(0)
        await slow.execute("BEGIN")
        held = await slow.fetchval(ADD_COMMIT)
        before = await store.read(q.GetHorizon())
        assert before.last == 0
        [writer] = before.writers
        await quick.execute("BEGIN; SELECT pg_current_xact_id()")
        assert (await store.read(q.GetHorizon())).writers == {writer}, "a transaction that tells nothing does not count"
        await quick.execute("COMMIT")
        above = await quick.fetchval(ADD_COMMIT)
        assert held < above
        assert await store.read(q.GetHorizon()) == q.Horizon(above, frozenset({writer}))
        assert [found.number for found in await store.read(q.ListCommits())] == [above]
        await slow.execute("COMMIT")
        assert await store.read(q.GetHorizon()) == q.Horizon(above)
        assert [found.number for found in await store.read(q.ListCommits())] == [held, above]


async def test_whoever_writes_in_another_database_of_the_server_is_nobodys_concern(
    postgres_server: Server, migrated_url: str
) -> None:
    async with (
        opened(migrated_url) as store,
        new_database(postgres_server) as elsewhere,
        opened(elsewhere),
        connected(elsewhere) as other,
    ):
        await other.execute("BEGIN")
        await other.fetchval(ADD_COMMIT)
        assert await store.read(q.GetHorizon()) == q.Horizon(0)


async def test_a_store_can_be_closed_twice_and_opened_again(migrated_url: str) -> None:
    store = PostgresStore(migrated_url)
    await store.close()
    await store.migrate()
    await store.open()
    await prepare(store)
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.read(q.ListPools())
    await store.open()
    [_] = await store.read(q.ListPools())
    await store.close()
