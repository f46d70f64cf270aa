"""What is particular to the SQLite store: its schema, its statements, its transactions, its journal."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core.decide import decide
from ficha.core.needs import Needs, needs
from ficha.core.records import Entry
from ficha.core.snapshot import Changes, Snapshot
from ficha.store import base as q
from ficha.store.migrations import steps
from ficha.store.sqlite import SqliteStore, load, reads, write
from ficha.store.sqlite import store as store_module
from ficha.store.sqlite.migrating.migrator import COLUMNS_KEPT, STATE
from tests.stores.sqlite_setup import (
    COMMITTER,
    POLICY,
    StoreSetup,
    a_submit,
    exists,
    job_id,
    journal,
    on_writer,
    schema,
    start_program,
)

# Migrations


@pytest.mark.req("B11")
async def test_the_schema_goes_up_and_down_and_up(path: str) -> None:
    store = SqliteStore(path)
    assert await store.version() == 0
    assert not exists(path)
    numbers = [m.number for m in store.migrations]
    assert [m.number for m in await store.migrate()] == numbers
    first = schema(path)
    assert "jobs" in first
    assert await store.migrate() == []
    assert [m.number for m in await store.migrate(0)] == numbers[::-1]
    assert schema(path) == ["schema_migrations"]
    assert await store.version() == 0
    await store.migrate()
    assert schema(path) == first
    assert await store.version() == numbers[-1]


async def test_processes_that_migrate_at_once_do_it_once(path: str) -> None:
    program = (
        "import asyncio, sys; from ficha.store.sqlite import SqliteStore\n"
        "print(len(asyncio.run(SqliteStore(sys.argv[1]).migrate())))"
    )
    processes = [start_program(program, path) for _ in range(4)]
    answers = [process.communicate()[0].strip() for process in processes]
    assert sum(map(int, answers)) == len(SqliteStore(path).migrations)


async def test_a_migration_that_fails_leaves_the_schema_as_it_was(path: str) -> None:
    store = SqliteStore(path)
    first, *_ = store.migrations
    broken = replace(first, up=steps(first.up[0].text + "\nCREATE TABLE jobs (id TEXT);"))
    store.migrations = (broken,)
    with pytest.raises(q.StoreError, match="already exists"):
        await store.migrate()
    assert schema(path) == []


async def test_other_schema_versions_are_refused(path: str) -> None:
    store = SqliteStore(path)
    with pytest.raises(q.SchemaMismatch, match=r"there is no database .* run `ficha migrate up`"):
        await store.open()
    assert not exists(path)
    await store.migrate()
    await store.migrate(0)
    with pytest.raises(q.SchemaMismatch, match=r"version 0, .* version \d+ and newer: run `ficha migrate up`"):
        await store.open()
    await store.migrate()
    apsw.Connection(path).execute("INSERT INTO schema_migrations (version, works_from) VALUES (777, 777)")
    with pytest.raises(q.SchemaMismatch, match=r"version 777, .* up to \d+: upgrade ficha.*`ficha migrate down"):
        await store.open()
    with pytest.raises(q.SchemaMismatch, match="upgrade ficha"):
        await store.migrate()
    with pytest.raises(q.StoreError, match="no migration 999"):
        await store.migrate(999)


async def test_a_place_where_no_database_can_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(q.StoreError, match="memory store"):
        SqliteStore(":memory:")
    with pytest.raises(q.StoreError, match=r"the folder .*nowhere does not exist"):
        await SqliteStore(str(tmp_path / "nowhere" / "ficha.db")).migrate()
    with pytest.raises(q.Unavailable, match="cannot be opened"):
        await SqliteStore(str(tmp_path)).migrate()
    page = tmp_path / "page.db"
    page.write_text("<html>" * 1000)
    with pytest.raises(q.StoreError, match="is not an SQLite database"):
        await SqliteStore(str(page)).migrate()


# Statements


def statements() -> Iterator[str]:
    for module in (load, reads, store_module, write):
        for value in (*vars(module).values(), *write.PLACES.values(), *write.OTHERS.values()):
            for text in value if isinstance(value, tuple) else (value,):
                if isinstance(text, str) and text.startswith(("SELECT", "INSERT", "UPDATE", "DELETE")):
                    yield text
    yield from (COLUMNS_KEPT, STATE)
    for account_id in (None, "ana"):
        for query in (
            q.ListJobs(account_id=account_id),
            q.ListJobs(account_id=account_id, statuses=("queued", "starting", "running", "completed", "failed")),
            q.ListJobs(account_id=account_id, dead=True, statuses=("failed",)),
            q.ListJobs(account_id=account_id, stuck_before_at=1, statuses=("running",)),
            q.ListJobs(account_id=account_id, tool="t", pool="p", batch_id="b", session="s", before="x"),
        ):
            yield reads.job_list(query)


async def test_every_statement_prepares_on_the_migrated_schema(setup: StoreSetup, path: str) -> None:
    found = list(statements())
    assert len(found) > 80
    db = apsw.Connection(path)
    for statement in found:
        # Without values, a statement is prepared and then refused for the lack of them, if it takes any.
        try:
            db.execute(f"EXPLAIN {statement}").fetchall()
        except apsw.BindingsError:
            continue


def plan(path: str, statement: str) -> str:
    values: Any = (None,) * statement.count("?") or dict.fromkeys(
        ["account_id", "before", "limit", "stuck", "status0", "status1"]
    )
    return "\n".join(row[3] for row in apsw.Connection(path).execute(f"EXPLAIN QUERY PLAN {statement}", values))


async def test_hot_statements_use_their_index_and_sort_nothing(setup: StoreSetup, path: str) -> None:
    claim = plan(path, load.READY)
    assert claim.startswith("SEARCH r USING INDEX ready_in_claim_order (pool=?)")
    assert plan(path, load.PARKED) == "SEARCH parked USING INDEX parked_in_claim_order (account_id=?)"
    assert plan(path, load.OCCUPIED) == "SEARCH leases USING COVERING INDEX leases_by_pool (pool=?)"
    for statement in (load.READY, load.JOBS, load.ACCOUNTS, load.RESERVATIONS_OF, load.KEYS, load.CONTENTS):
        text = plan(path, statement)
        assert "TEMP B-TREE" not in text
        assert "SCAN" not in text.replace("SCAN k VIRTUAL TABLE", "")
    for query in (q.ListJobs(), q.ListJobs(account_id="ana"), q.ListJobs(dead=True), q.ListJobs(statuses=("queued",))):
        assert "TEMP B-TREE" not in plan(path, reads.job_list(query))


# Transactions


async def test_a_decision_that_raises_leaves_nothing(setup: StoreSetup) -> None:
    def refuse(snapshot: Snapshot) -> q.Decision:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        await setup.store.transact(COMMITTER, 90, Needs(accounts={"ana"}), refuse)
    assert not await setup.store.committed(COMMITTER, 90)
    await setup.run(c.Credit("ana", 1, "grant"))
    assert await setup.balance() == 101


async def test_a_row_that_is_refused_takes_the_whole_commit_group_with_it(setup: StoreSetup) -> None:
    def overdraw(snapshot: Snapshot) -> q.Decision:
        account = snapshot.accounts["ana"]
        assert account is not None
        line = Entry("ana", account.entries + 1, "adjust", 5, 105, snapshot.now)
        return Changes(entries=[line], accounts=[replace(account, balance=105), replace(account, balance=-1)]), []

    with pytest.raises(q.StoreError, match=r"refused a row \(CHECK constraint failed: balance >= 0\)"):
        await setup.store.transact(COMMITTER, 90, Needs(accounts={"ana"}), overdraw)
    assert await setup.balance() == 100
    entries = await setup.store.read(q.ListEntries("ana"))
    assert len(entries) == 1


async def test_a_caller_that_is_cancelled_does_not_cut_the_transaction(setup: StoreSetup) -> None:
    inside, go_on = threading.Event(), threading.Event()
    group = [c.Credit("ana", 1, "grant")]

    def slowly(snapshot: Snapshot) -> q.Decision:
        inside.set()
        assert go_on.wait(10)
        return decide(snapshot, group, POLICY)

    task = asyncio.create_task(setup.store.transact(COMMITTER, 90, needs(group), slowly))
    await asyncio.to_thread(inside.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    asked = asyncio.create_task(setup.store.committed(COMMITTER, 90))
    await asyncio.sleep(0)
    assert not asked.done()
    go_on.set()
    assert await asked
    assert await setup.balance() == 101


async def test_a_commit_group_that_changes_nothing_writes_nothing(setup: StoreSetup, path: str) -> None:
    before = journal(path)
    assert await setup.run(c.Claim("w1", ("gpu",), 10)) != []
    after = journal(path)
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert await setup.store.committed(COMMITTER, setup.number)
    assert not await setup.store.committed(COMMITTER, setup.number + 1)
    assert not await setup.store.committed(job_id(1), 1)


async def test_a_lock_that_is_held_too_long_is_transient(setup: StoreSetup, path: str) -> None:
    other = apsw.Connection(path)
    impatient = SqliteStore(path, busy_timeout_s=0.05)
    await impatient.open()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(q.Transient, match="another process holds the database's write lock"):
        await StoreSetup(impatient).run(c.Credit("ana", 1, "grant"))
    other.execute("ROLLBACK")
    await StoreSetup(impatient).run(c.Credit("ana", 1, "grant"))
    await impatient.close()
    assert await setup.balance() == 101


async def test_only_postgresql_takes_part_in_a_callers_transaction(setup: StoreSetup) -> None:
    with pytest.raises(q.StoreError, match="only on PostgreSQL"):
        await setup.store.transact_within(None, Needs(), lambda _: (Changes(), []), q.no_hints)


async def test_a_closed_store_says_so_and_closes_twice(setup: StoreSetup) -> None:
    await setup.store.close()
    await setup.store.close()
    with pytest.raises(q.Unavailable, match="is not open"):
        await setup.balance()
    await setup.store.open()
    assert await setup.balance() == 100


async def test_the_view_shows_a_job_as_it_is_now(setup: StoreSetup, path: str) -> None:
    # Born and claimed in one commit group, so its wide row never knew about the claim.
    await setup.run(a_submit(1), c.Claim("w1", ("gpu",)))
    look = "SELECT status, place, worker, epoch, charged FROM job_states"
    assert apsw.Connection(path).execute(look).get == ("starting", "leased", "w1", 1, 2)
    (row,) = await setup.store.read(q.GetJobs((job_id(1),)))
    assert (row.job.status, row.job.epoch) == ("starting", 1)
    await setup.run(c.Heartbeat(job_id(1), 1, starts=True), c.Finish(job_id(1), c.Completed("{}"), 1))
    assert apsw.Connection(path).execute(look).get == ("completed", None, None, 1, 2)


# The ledger


async def test_a_ledger_line_is_never_changed_or_deleted(setup: StoreSetup, path: str) -> None:
    db = apsw.Connection(path)
    with pytest.raises(apsw.ConstraintError, match="cannot be changed"):
        db.execute("UPDATE entries SET amount = 1000")
    with pytest.raises(apsw.ConstraintError, match="cannot be deleted"):
        db.execute("DELETE FROM entries")
    replacing = "REPLACE INTO entries SELECT account_id, number, kind, 1, 1, at, job_id, reason FROM entries"
    with pytest.raises(q.StoreError, match="cannot be deleted"):
        await on_writer(setup.store, lambda db: db.execute(replacing))


async def test_an_audit_line_is_never_changed_or_deleted(setup: StoreSetup, path: str) -> None:
    await setup.run(c.ActingAs("boss", c.Credit("ana", 1, "grant")))
    db = apsw.Connection(path)
    for change in ("actor = 'somebody'", "details = '{}'", "words = '{}'", "account_id = 'bob'", "number = 7"):
        with pytest.raises(apsw.ConstraintError, match="cannot be changed"):
            db.execute(f"UPDATE audit SET {change}")
    with pytest.raises(apsw.ConstraintError, match="cannot be deleted"):
        db.execute("DELETE FROM audit")
    replacing = "REPLACE INTO audit SELECT number, at, 'somebody', act, target, details, account_id, words FROM audit"
    with pytest.raises(q.StoreError, match="cannot be deleted"):
        await on_writer(setup.store, lambda db: db.execute(replacing))
    [line] = await setup.store.read(q.ListAudit())
    assert line.line.actor == "boss"


async def test_a_job_is_refunded_once_whatever_the_rules_say(setup: StoreSetup) -> None:
    await setup.run(a_submit(1))
    await setup.run(c.CancelJob(job_id(1)))

    def again(snapshot: Snapshot) -> q.Decision:
        account = snapshot.accounts["ana"]
        assert account is not None
        line = Entry("ana", account.entries + 1, "refund", 2, 102, snapshot.now, job_id(1))
        return Changes(entries=[line], accounts=[replace(account, balance=102, entries=account.entries + 1)]), []

    with pytest.raises(q.StoreError, match=r"UNIQUE constraint failed: entries\.job_id, entries\.kind"):
        await setup.store.transact(COMMITTER, 90, Needs(accounts={"ana"}), again)
    assert await setup.balance() == 100


# Settings


async def test_commits_are_flushed_and_the_reader_only_reads(setup: StoreSetup) -> None:
    def settings(db: apsw.Connection) -> list[Any]:
        return [db.pragma(name) for name in ("journal_mode", "synchronous", "mmap_size", "wal_autocheckpoint")]

    writer, reader = setup.store._writer, setup.store._reader
    assert writer is not None
    assert reader is not None
    for thread in (writer, reader, setup.store._journal._mover):
        assert await thread.call(settings) == ["wal", 2, 0, 0]
    with pytest.raises(q.Unavailable, match="cannot be written"):
        await reader.call(lambda db: db.execute("DELETE FROM leaders"))


async def test_a_statement_is_planned_once_whatever_it_is_given(setup: StoreSetup) -> None:
    planned: list[str | None] = []

    def note(action: int, *names: str | None) -> int:
        planned.append(names[0])
        return apsw.SQLITE_OK

    def watch(db: apsw.Connection) -> None:
        db.authorizer = note

    writer, reader = setup.store._writer, setup.store._reader
    assert writer is not None
    assert reader is not None
    for thread in (writer, reader):
        await thread.call(watch)
    for number in range(1, 4):
        planned.clear()
        await setup.run(a_submit(number), c.Claim("w1", ("gpu",), number))
        await setup.store.read(q.ListJobs(limit=number))
        await setup.store.read(q.GetDue(1_000, 1_000, limit=number))
        assert (planned == []) is (number > 1)
