"""An application whose disk can lose what was not flushed, in a process of its own: `python -m tests.chaos.power`.

Jobs are submitted, claimed and ended as fast as it goes. Again and again the power is cut: what a cut at that instant
leaves of the files is put aside, opened as after a restart, and compared with all that had been acknowledged by then.
The process itself goes on, for so many seconds and at least so many cuts, or until something is wrong. Prints a line of
JSON: how many cuts, how many writes they lost, and what was wrong.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import apsw

from ficha.store.base import GetState
from ficha.store.sqlite import SqliteStore, wal
from ficha.store.sqlite import connection as sqlite
from tests.chaos.application import ACCOUNTS, CREDITS, RecordedFicha, application
from tests.chaos.disk import VolatileDisk
from tests.chaos.oracle import contradictions
from tests.chaos.records import Line


class Memory:
    """Where acknowledgements go here: this process does not die, only its disk does."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def write(self, **line: Any) -> None:
        self.lines.append(line)


async def cut_power(folder: Path, seconds: float, least_cuts: int, seed: int) -> dict[str, Any]:
    disk, memory, choice = VolatileDisk(folder), Memory(), random.Random(seed)
    # The journal is moved and started over all the time, so that cuts fall into it.
    wal.CHECKPOINT_PAGES, wal.LONG_PAGES = 20, 60
    app = application(f"sqlite:///{folder / 'ficha.db'}", memory)  # type: ignore[arg-type]
    cuts = lost = 0
    wrong: list[str] = []
    async with app:
        for account, plan in ACCOUNTS.items():
            await app.open_account(account, plan=plan, credits=CREDITS)
        load = [asyncio.create_task(_submit(app, memory, caller)) for caller in range(4)]
        load.append(asyncio.create_task(app.run_worker()))
        until = time.monotonic() + seconds
        while (cuts < least_cuts or time.monotonic() < until) and not wrong:
            # What was acknowledged by then is taken first: the files may know more, and must not know less.
            cut = await asyncio.wrap_future(disk.cut_at(choice.randint(1, 40), lambda: list(memory.lines)))
            with tempfile.TemporaryDirectory(dir=folder) as left:
                lost += cut.leave(Path(left), choice)
                wrong += await _after_restart(Path(left) / "ficha.db", cut.told)
            cuts += 1
            # Now and then the journal is emptied, which writes to the database itself.
            if cuts % 5 == 0:
                store = app.engine.store
                assert isinstance(store, SqliteStore)
                assert store._writer is not None
                await store._writer.call(store._journal.empty)
        for task in load:
            task.cancel()
        await asyncio.gather(*load, return_exceptions=True)
    return {"cuts": cuts, "lost": lost, "told": len(memory.lines), "wrong": wrong[:10]}


async def _submit(app: RecordedFicha, memory: Memory, caller: int) -> None:
    for number in range(1, 1_000_000):
        key, account = f"here.{caller}.{number}", tuple(ACCOUNTS)[caller]
        receipt = await app.submit("draw", {"number": number}, account=account, idempotency_key=key)
        memory.write(told="submitted", key=key, job=receipt.job_id, account=account, cost=receipt.cost)
        await asyncio.sleep(0.005)


async def _after_restart(path: Path, told: list[Line]) -> list[str]:
    store = SqliteStore(path)
    try:
        await store.open()
        state = await store.read(GetState(texts=True))
    except Exception as error:
        return [f"after the cut the database cannot be used: {error}"]
    finally:
        await store.close()
    db = apsw.Connection(str(path), vfs="unix")
    damage = [row[0] for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
    db.close()
    return [*damage, *contradictions(state, told, ended=False)]


def careless() -> None:
    """What the settings are for: without FULL, a commit does not wait for the disk."""
    connect = sqlite.connect

    def connect_carelessly(*args: Any, **settings: Any) -> apsw.Connection:
        db = connect(*args, **settings)
        db.pragma("synchronous", "NORMAL")
        return db

    from ficha.store.sqlite import store

    store.connect = connect_carelessly


if __name__ == "__main__":
    if sys.argv[5:] == ["careless"]:
        careless()
    told = cut_power(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    print(json.dumps(asyncio.run(told)))
