"""The synchronous face: the same operations as plain calls, from threads, forked processes and transactions."""

import asyncio
import inspect
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from ficha import EventView, Ficha, InsufficientCredits, NotFound, Page, SyncFicha
from ficha.operations import AllOperations
from ficha.store.base import StoreError
from ficha.testing import FakeTransaction
from tests.support import processes
from tests.support.callers_connections import sqlalchemy_url
from tests.support.shop import shop

pytestmark = pytest.mark.long_on("postgresql")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ficha(url: str) -> Iterator[SyncFicha]:
    with SyncFicha(shop(url)) as ficha:
        ficha.open_account("ana", plan="open", credits=100)
        yield ficha


def test_a_job_goes_its_way_by_plain_calls(ficha: SyncFicha) -> None:
    receipt = ficha.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k")
    assert (receipt.status, receipt.position, receipt.new_balance) == ("queued", 1, 95)
    assert ficha.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k").idempotent_hit
    with pytest.raises(InsufficientCredits):
        ficha.submit("video", {"seconds": 5}, account=ficha.open_account("poor", plan="open").id)
    assert ficha.run_worker(burst=True) == 1
    job = ficha.job(receipt.job_id)
    assert (job.status, job.result) == ("completed", {"image": "x x2"})
    jobs = ficha.jobs(account="ana")
    assert isinstance(jobs, Page)
    assert [one.id for one in jobs.items] == [receipt.job_id]
    ficha.acting("olga").adjust("ana", 5, reason="sorry")
    assert [line.actor for line in ficha.audit().items] == ["olga"]
    assert ficha.verify() == []


def test_a_job_is_watched_and_waited_for(ficha: SyncFicha) -> None:
    receipt = ficha.submit("upscale", {"image": "x"}, account="ana")
    with pytest.raises(TimeoutError):
        ficha.wait(receipt.job_id, timeout_s=0)
    some = ficha.watch(receipt.job_id)
    assert isinstance(next(some), EventView)
    some.close()
    with ThreadPoolExecutor(1) as thread:
        watched = thread.submit(lambda: list(ficha.watch(receipt.job_id)))
        assert ficha.run_worker(burst=True) == 1
        told = watched.result(60)
    events = [one.kind for one in told if isinstance(one, EventView)]
    assert (events[0], events[-1]) == ("submitted", "completed")
    assert told[-1] == ficha.wait(receipt.job_id)
    with pytest.raises(NotFound):
        list(ficha.watch("018f0000-0000-7000-8000-000000000000"))


def test_many_threads_call_at_once(ficha: SyncFicha) -> None:
    with ThreadPoolExecutor(8) as threads:
        receipts = list(threads.map(lambda n: ficha.submit("upscale", {"image": f"{n}"}, account="ana"), range(20)))
    assert len({receipt.job_id for receipt in receipts}) == 20
    assert ficha.account("ana").balance == 0


def test_it_opens_with_the_first_call_and_again_after_it_was_closed(tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path / 'ficha.db'}")
    ficha = SyncFicha(app)
    assert not (tmp_path / "ficha.db").exists()
    ficha.open_account("ana", plan="open", credits=100)
    assert not app.is_open
    ficha.close()
    ficha.close()
    assert ficha.account("ana").balance == 100
    ficha.close()


def test_a_database_that_cannot_be_opened_is_told_to_each_caller() -> None:
    ficha = SyncFicha(Ficha("postgresql://nobody@127.0.0.1:1/nothing"))
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be reached"):
            ficha.account("ana")
    ficha.close()


async def test_inside_a_running_event_loop_it_says_what_to_do() -> None:
    ficha = SyncFicha(shop("memory:"))
    for call in (lambda: ficha.account("ana"), ficha.open, ficha.close):
        with pytest.raises(RuntimeError, match=r"inside a running event loop.*await app\.submit"):
            call()


def test_what_is_interrupted_leaves_the_others_alone(ficha: SyncFicha, monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import Future

    def interrupted(future: Future) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ficha.wait_for_work("gpu", 600)
    assert ficha.account("ana").balance == 100


PROGRAM = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from ficha import SyncFicha
from tests.support.shop import shop

ficha = SyncFicha(shop(sys.argv[1]))
if sys.argv[2] == "opened":
    ficha.open_account("before", plan="open")
child = os.fork()
name = "parent" if child else "child"
ficha.open_account(name, plan="open", credits=10)
assert ficha.submit("upscale", {"image": name}, account=name).new_balance == 5
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    print(sorted(one.id for one in ficha.accounts().items), ficha.verify())
"""


@pytest.mark.parametrize("before", ["opened", "not opened"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_forked_process_opens_its_own_and_both_end_well(
    kind: str, before: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'ficha.db'}" if kind == "sqlite" else request.getfixturevalue("migrated_url")
    done = processes.run("tests.support.program", PROGRAM, url, before)
    names = ["before", "child", "parent"] if before == "opened" else ["child", "parent"]
    assert (done.stdout, done.stderr, done.returncode) == (f"{names} []\n", "", 0)


BUSY_PARENT = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from ficha import SyncFicha
from tests.support.shop import shop

ficha = SyncFicha(shop(sys.argv[1]))
ficha.open_account("busy", plan="open", credits=10_000)
stop = threading.Event()


def work():
    while not stop.is_set():
        ficha.grant("busy", 1)


thread = threading.Thread(target=work)
thread.start()
children = []
for number in range(10):
    child = os.fork()
    if not child:
        ficha.open_account(f"child {number}", plan="open")
        ficha.close()
        os._exit(0)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
stop.set()
thread.join()
print(codes, len(ficha.accounts().items), ficha.verify())
"""


def test_a_process_may_fork_in_the_middle_of_its_own_writes(tmp_path: Path) -> None:
    done = processes.run("tests.support.program", BUSY_PARENT, f"sqlite:///{tmp_path / 'ficha.db'}")
    assert (done.stdout, done.stderr, done.returncode) == (f"{[0] * 10} 11 []\n", "", 0)


PARENT_CLOSES_FIRST = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from ficha import SyncFicha
from tests.support.shop import shop

ficha = SyncFicha(shop(sys.argv[1]))
ficha.open_account("parent", plan="open")
to_child, to_parent = os.pipe(), os.pipe()
child = os.fork()
if not child:
    ficha.open_account("child", plan="open")
    os.write(to_parent[1], b"x")
    os.read(to_child[0], 1)
    ficha.open_account("child, later", plan="open")
    os._exit(0)
os.read(to_parent[0], 1)
ficha.close()
os.write(to_child[1], b"x")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print([one.id for one in SyncFicha(shop(sys.argv[1])).accounts().items])
"""


def test_a_child_loses_nothing_when_its_parent_closes_first(tmp_path: Path) -> None:
    done = processes.run("tests.support.program", PARENT_CLOSES_FIRST, f"sqlite:///{tmp_path / 'ficha.db'}")
    assert (done.stdout, done.stderr, done.returncode) == ("['child', 'child, later', 'parent']\n", "", 0)


def operations() -> dict[str, object]:
    return {
        name: operation
        for name, operation in inspect.getmembers(AllOperations)
        if not name.startswith("_")
        and (inspect.iscoroutinefunction(operation) or inspect.isasyncgenfunction(operation))
    }


def test_every_operation_is_there_with_its_arguments_and_words() -> None:
    assert len(operations()) > 60
    missing = [name for name in operations() if not hasattr(SyncFicha, name)]
    assert missing == [], "each is one line in sync_face.py"
    for name, operation in operations().items():
        plain = getattr(SyncFicha, name)
        assert inspect.signature(plain) == inspect.signature(operation), name  # type: ignore[arg-type]
        assert plain.__doc__ == operation.__doc__


TYPES = """
from typing import assert_type
from ficha import AccountView, EventView, Ficha, FinishView, JobView, Page, Receipt, SyncFicha, Wait

ficha = SyncFicha(Ficha("memory:"))
assert_type(ficha.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k"), Receipt)
assert_type(ficha.submit_batch([("upscale", {})], account="ana"), Receipt)
assert_type(ficha.job("x"), JobView)
assert_type(ficha.jobs(account="ana"), Page[JobView])
assert_type(ficha.account("ana"), AccountView)
assert_type(ficha.acting("olga").cancel("x"), FinishView)
assert_type(ficha.run_worker(burst=True), int)
for happening in ficha.watch("x"):
    assert_type(happening, EventView | Wait | JobView)
ficha.submit("upscale", {}, acount="ana")
ficha.job(1)
"""


def test_a_type_checker_sees_the_real_types(tmp_path: Path) -> None:
    from mypy import api  # Not above: it takes its time, and every process of a run collects every test.

    program = tmp_path / "program.py"
    program.write_text(TYPES)
    told, _, _ = api.run(
        ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache"), str(program)]
    )
    lines = sorted(line.partition("error: ")[2].rpartition("  [")[0] for line in told.splitlines() if "error:" in line)
    assert lines == [
        'Argument 1 has incompatible type "int"; expected "str"',
        'Unexpected keyword argument "acount"; did you mean "account"?',
    ], told


@pytest.fixture
def on_postgres(migrated_url: str) -> Iterator[SyncFicha]:
    with SyncFicha(shop(migrated_url)) as ficha, psycopg.connect(migrated_url, autocommit=True) as own:
        ficha.open_account("ana", plan="open", credits=100)
        own.execute("create table orders (name text primary key)")
        yield ficha
        own.execute("drop table orders")


def orders(url: str) -> int:
    with psycopg.connect(url) as connection:
        return len(connection.execute("select * from orders").fetchall())


def test_calls_take_part_in_a_psycopg_transaction(on_postgres: SyncFicha, migrated_url: str) -> None:
    ficha = on_postgres
    with psycopg.connect(migrated_url) as connection:
        connection.execute("insert into orders values ('first')")
        receipt = ficha.submit("upscale", {"image": "x"}, account="ana", connection=connection)
        ficha.open_account("bob", plan="open", connection=connection)
        assert (receipt.position, receipt.new_balance) == (1, 95)
        with pytest.raises(NotFound):
            ficha.job(receipt.job_id)
    assert (ficha.job(receipt.job_id).status, ficha.account("bob").balance) == ("queued", 0)

    with psycopg.connect(migrated_url) as connection:
        connection.execute("insert into orders values ('second')")
        ficha.grant("ana", 5, connection=connection)
        connection.rollback()
    assert (orders(migrated_url), ficha.account("ana").balance) == (1, 95)


def test_calls_take_part_in_a_transaction_of_sqlalchemy(on_postgres: SyncFicha, migrated_url: str) -> None:
    ficha = on_postgres
    engine = create_engine(sqlalchemy_url(migrated_url, "psycopg"))
    with Session(engine) as session, session.begin():
        session.execute(text("insert into orders values ('first')"))
        ficha.grant("ana", 5, connection=session)
    with engine.connect() as connection:
        ficha.grant("ana", 5, connection=connection)
        connection.commit()
    local = scoped_session(sessionmaker(engine))
    local.execute(text("insert into orders values ('second')"))
    ficha.grant("ana", 5, connection=local)
    local.rollback()
    local.remove()
    engine.dispose()
    assert (orders(migrated_url), ficha.account("ana").balance) == (1, 110)


def test_other_connections_are_refused_with_what_is_taken(on_postgres: SyncFicha, migrated_url: str) -> None:
    async def asynchronous() -> tuple[asyncpg.Connection, psycopg.AsyncConnection]:
        found = await asyncpg.connect(migrated_url), await psycopg.AsyncConnection.connect(migrated_url)
        for connection in found:
            await connection.close()
        return found

    one, other = asyncio.run(asynchronous())
    engine = create_engine("sqlite://")
    with Session(engine) as session:
        for connection, kind in [
            ("postgresql://", "str"),
            (session, "sqlalchemy.engine.base.Connection on sqlite3.Connection"),
            (one, "asyncpg.connection.Connection"),
            (other, "psycopg.AsyncConnection"),
        ]:
            with pytest.raises(StoreError, match="SyncFicha takes a psycopg 3 connection") as told:
                on_postgres.grant("ana", 5, connection=connection)
            assert f"not {kind};" in str(told.value)
    engine.dispose()
    assert on_postgres.account("ana").balance == 100


def test_a_stand_in_for_a_transaction_serves_synchronous_code_too(ficha: SyncFicha) -> None:
    with FakeTransaction() as connection:
        receipt = ficha.submit("upscale", {"image": "x"}, account="ana", connection=connection)
        assert ficha.account("ana").balance == 100

    def undo() -> None:
        with FakeTransaction() as connection:
            ficha.grant("ana", 5, connection=connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        undo()
    assert (ficha.job(receipt.job_id).status, ficha.account("ana").balance) == ("queued", 95)
