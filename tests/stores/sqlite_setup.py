"""What the tests of the SQLite store share: an open store with the rules on top, and looks at its file."""

import os
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw

from ficha.core import commands as c
from ficha.core.decide import decide
from ficha.core.needs import needs
from ficha.core.outcomes import Outcome
from ficha.core.policy import Plan, Policy
from ficha.store import base as q
from ficha.store.sqlite import SqliteStore
from ficha.testing import ManualClock
from tests.support.new_jobs import new_job
from tests.support.processes import ForkedProcess

COMMITTER = "01890000-0000-7000-8000-000000000000"
POLICY = Policy(plans={"pro": Plan("pro", priority=10)})


class StoreSetup:
    """A store with the rules on top."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.number = 0

    async def run(self, *commands: c.Command) -> list[Outcome]:
        self.number += 1
        wanted = needs(commands)
        committed = await self.store.transact(COMMITTER, self.number, wanted, lambda s: decide(s, commands, POLICY))
        return committed.outcomes

    async def balance(self) -> int:
        account = await self.store.read(q.GetAccount("ana"))
        assert account is not None
        return account.balance


@asynccontextmanager
async def opened(path: str) -> AsyncIterator[StoreSetup]:
    """An open store with one account of 100 credits and one pool."""
    store = SqliteStore(path, clock=ManualClock(), busy_timeout_s=5)
    await store.migrate()
    await store.open()
    setup = StoreSetup(store)
    await setup.run(c.OpenAccount("ana", "pro", credits=100), c.DeclarePool("gpu", None))
    try:
        yield setup
    finally:
        await store.close()


def job_id(number: int) -> str:
    return str(UUID(int=number))


def a_submit(number: int, account: str = "ana") -> c.Submit:
    return c.Submit(account, (new_job(job_id(number), "upscale", "gpu", "{}", cost=2),), fingerprint="f")


def schema(path: str) -> list[str]:
    """The names of everything that a migration made."""
    rows = apsw.Connection(path).execute("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%' ORDER BY name")
    return [name for (name,) in rows]


def is_intact(path: str) -> bool:
    return bool(apsw.Connection(path).pragma("integrity_check") == "ok")


def exists(path: str) -> bool:
    return Path(path).exists()


def journal(path: str) -> os.stat_result:
    return Path(path + "-wal").stat()


def start_writer(*arguments: object) -> ForkedProcess:
    """A process that writes to a database, and says what; see `sqlite_writer.py`."""
    options = [str(argument) for argument in arguments]
    return ForkedProcess("tests.stores.sqlite_writer", options, stdout=subprocess.PIPE, text=True)


def start_program(text: str, *arguments: object) -> ForkedProcess:
    """A Python process whose output the test reads."""
    return ForkedProcess("tests.support.program", [text, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


async def on_writer(store: SqliteStore, work: Callable[[apsw.Connection], Any]) -> Any:
    assert store._writer is not None
    return await store._writer.call(work)


async def statements(setup: StoreSetup) -> list[str]:
    """The statements that the writer runs from now on."""
    seen: list[str] = []

    def trace(cursor: apsw.Cursor, statement: str, values: object) -> bool:
        seen.append(statement)
        return True

    def watch(db: apsw.Connection) -> None:
        db.exec_trace = trace

    await on_writer(setup.store, watch)
    return seen


async def moved(setup: StoreSetup) -> None:
    """Whatever the journal's thread was asked for is done by then, and what that asked of the writer."""
    await setup.store._journal._mover.call(lambda db: None)
    await on_writer(setup.store, lambda db: None)
