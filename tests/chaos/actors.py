"""The processes of the load: submitters and workers, each a real application with a record of what it was told.

An actor that is killed is started again under its name. A submitter goes on with the first key whose answer it has not
written down, as a client that repeats its request would.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

from ficha import InvalidState, Overloaded, Refused
from ficha.engine.sweeper import Sweeper
from ficha.store.base import StoreError
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import wal
from tests.chaos.application import ACCOUNTS, HANDLER_S, LEASE_S, RecordedFicha, application
from tests.chaos.board import DRAIN, LEAVE, RUN, Board
from tests.chaos.crashes import Act, Crash, Point
from tests.chaos.disk import FaultyDisk
from tests.chaos.records import Record, lines

T = TypeVar("T")

WAITING_MOST: Final = 150
"""Ready jobs beyond which a submitter waits."""
LOOK_S: Final = 0.02
PR_SET_PDEATHSIG: Final = 1


class Habits(Struct, frozen=True):
    """What is different about the processes of one load.

    callers: how many a submitter has, and `accounts`, in whose names they call.
    pace_s: the pause between two submits of a caller.
    handler_s: how long a job takes.
    clock_ahead_s: how far this process's wall clock is ahead of the true one.
    hears: whether hints between processes work.
    leads_always: whether it sweeps though another one leads.
    disk: whether SQLite goes to the disk by a way that can fail.
    lease_s: how long a worker holds a job without a heartbeat.
    prunes: whether jobs leave by their age, and an old key is answered with just that.
    """

    callers: int = 3
    accounts: tuple[str, ...] = tuple(ACCOUNTS)
    pace_s: float = 0.02
    handler_s: float = HANDLER_S
    clock_ahead_s: int = 0
    hears: bool = True
    leads_always: bool = False
    disk: bool = False
    lease_s: float = LEASE_S
    prunes: bool = False


class Order(Struct, frozen=True):
    """Who a process is."""

    role: Literal["submit", "work"]
    name: str
    slot: int
    life: int
    database: str
    folder: str
    habits: Habits
    crash: tuple[Point, Act, int] | None = None


def main(order: Order) -> None:
    """The whole life of a process."""
    # It ends with the server that it was forked from, which ends with the supervisor, however that one ends.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    folder = Path(order.folder)
    log = os.open(folder / f"{order.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {os.getpid()} %(levelname)s %(message)s", force=True)
    board = Board(folder / "board")
    record = Record(folder, order.name, order.life)
    _adopt(order, board)
    try:
        asyncio.run(_live(order, board, record))
    except BaseException as error:
        record.write(trouble=f"{order.name} ended by {type(error).__name__}: {error}")
        raise


def _adopt(order: Order, board: Board) -> None:
    """Makes this process what its habits say. Everything here is a wrap around the product, from outside."""
    habits = order.habits
    true_time, true_time_ns = time.time, time.time_ns

    def ahead_s() -> int:
        return habits.clock_ahead_s + board.clock_ahead_s

    time.time = lambda: true_time() + ahead_s()
    time.time_ns = lambda: true_time_ns() + ahead_s() * 1_000_000_000
    if not habits.hears:

        async def nothing(store: Any, what: Any) -> None: ...

        PostgresStore.notify = PostgresStore.listen = nothing  # type: ignore[method-assign]
    if habits.leads_always:

        async def leads(sweeper: Any) -> bool:
            return True

        Sweeper._leads = leads  # type: ignore[method-assign]
    if habits.disk:
        # The journal is moved and started over all the time, so that faults fall into it.
        wal.CHECKPOINT_PAGES, wal.LONG_PAGES = 20, 60
        choice = random.Random(os.getpid())

        def fault(doing: str) -> str | None:
            if board.is_disk_full and doing == "write":
                board.count(order.slot, 2)
                return "full"
            if board.fails_every and choice.randrange(board.fails_every) == 0:
                board.count(order.slot, 2)
                return "broken"
            return None

        _kept.append(FaultyDisk(fault))
    if order.crash is not None:
        Crash(*order.crash).arm()


async def _live(order: Order, board: Board, record: Record) -> None:
    app = application(order.database, record, lease_s=order.habits.lease_s, handler_s=order.habits.handler_s)
    await insist(app.open)
    try:
        await (submit if order.role == "submit" else work)(app, order, board, record)
    finally:
        await app.close(grace_s=2.0)


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Asks until there is an answer, as a client does that was told to come back."""
    while True:
        try:
            return await call()
        except (Overloaded, StoreError) as error:
            logging.info("asked again: %s", error)
            await asyncio.sleep(random.uniform(0.01, 0.1))


async def submit(app: RecordedFicha, order: Order, board: Board, record: Record) -> None:
    """Keeps the queue supplied."""
    told = [line for line in lines(Path(order.folder), order.name) if line.get("told") == "submitted"]
    room = asyncio.create_task(_watch_room(app, board))
    try:
        await asyncio.gather(
            *(
                _call(app, order, board, record, caller, _last(told, order.name, caller))
                for caller in range(order.habits.callers)
            )
        )
    finally:
        room.cancel()
        await asyncio.gather(room, return_exceptions=True)


def _last(told: list[dict[str, Any]], name: str, caller: int) -> int:
    numbers = [int(line["key"].rsplit(".", 1)[1]) for line in told if line["key"].startswith(f"{name}.{caller}.")]
    return max(numbers, default=0)


_is_full = False
_kept: list[object] = []
"""What has to live as long as the process."""


async def _watch_room(app: RecordedFicha, board: Board) -> None:
    global _is_full
    while True:
        with suppress(StoreError, Refused):
            _is_full = await app.queue_length("default") > WAITING_MOST
        await asyncio.sleep(0.1)


async def _call(app: RecordedFicha, order: Order, board: Board, record: Record, caller: int, number: int) -> None:
    """One caller: key after key, each until it is answered; now and then one of the keys before once more."""
    choice = random.Random(f"{order.name}.{caller}.{order.life}")
    account = order.habits.accounts[caller % len(order.habits.accounts)]

    async def ask(number: int) -> None:
        key = f"{order.name}.{caller}.{number}"
        try:
            receipt = await insist(lambda: app.submit("draw", {"number": number}, account=account, idempotency_key=key))
        except InvalidState as error:
            if not (order.habits.prunes and "has left by its age" in str(error)):
                raise
            return
        record.write(told="submitted", key=key, job=receipt.job_id, account=account, cost=receipt.cost)

    is_first = True
    # The first key may have been sent in the life before, so it is asked for in any case.
    while is_first or board.phase == RUN:
        is_first = False
        number += 1
        await ask(number)
        board.count(order.slot, 0)
        if choice.random() < 0.05:
            await ask(choice.randint(1, number))
        await asyncio.sleep(order.habits.pace_s * choice.uniform(0.5, 1.5))
        while _is_full and board.phase == RUN:  # noqa: ASYNC110 (the board is another process's)
            await asyncio.sleep(LOOK_S)


async def work(app: RecordedFicha, order: Order, board: Board, record: Record) -> None:
    """The worker of the product itself, until it is told to leave."""
    app.ended = lambda: board.count(order.slot, 1)  # type: ignore[method-assign]
    worker = asyncio.create_task(app.run_worker(worker=f"{order.name}.{order.life}"))
    while board.phase in (RUN, DRAIN) and not worker.done():  # noqa: ASYNC110 (the board is another process's)
        await asyncio.sleep(LOOK_S)
    if worker.done():
        await worker
        raise RuntimeError("the worker ended by itself")
    assert board.phase == LEAVE
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
