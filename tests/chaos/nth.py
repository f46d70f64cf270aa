"""One disk operation after the other fails, each once: `python -m tests.chaos.nth FOLDER OPERATIONS`.

A job is submitted, claimed and ended for each N, and the Nth write, truncation or flush from there on fails; first as a
broken disk, then as a full one. Prints a line of JSON: how many faults struck, and what was wrong.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from ficha import Lease
from ficha.store.base import GetState
from ficha.store.sqlite import wal
from tests.chaos.actors import insist
from tests.chaos.application import ACCOUNTS, CREDITS, RecordedFicha, application
from tests.chaos.disk import FaultyDisk
from tests.chaos.oracle import contradictions
from tests.chaos.power import Memory


class Countdown:
    """Says when: at the Nth operation, once."""

    def __init__(self) -> None:
        self.left = 0
        self.kind = "broken"
        self.struck = 0

    def __call__(self, doing: str) -> str | None:
        self.left -= 1
        if self.left != 0 or (self.kind == "full" and doing != "write"):
            return None
        self.struck += 1
        return self.kind


async def fail_each(folder: Path, operations: int) -> dict[str, Any]:
    fault, memory = Countdown(), Memory()
    # The journal is moved and started over all the time, so that faults fall into it.
    wal.CHECKPOINT_PAGES, wal.LONG_PAGES = 10, 30
    # The name keeps it registered.
    disk = FaultyDisk(fault)
    async with application(f"sqlite:///{folder / 'ficha.db'}", memory, sweep_by_itself=False) as app:  # type: ignore[arg-type]
        for account, plan in ACCOUNTS.items():
            await app.open_account(account, plan=plan, credits=CREDITS)
        for kind in ("broken", "full"):
            fault.kind = kind
            for number in range(1, operations + 1):
                fault.left = number
                await _whole_life(app, memory, f"{kind}.0.{number}", number)
        fault.left = 0
        await app.sweep()
        state = await app.engine.store.read(GetState(texts=True))
    wrong = contradictions(state, memory.lines, ended=False)
    wrong += [f"job {job.id} is {job.status}" for job in state.jobs.values() if job.finished_at is None]
    del disk
    return {"struck": fault.struck, "jobs": len(state.jobs), "wrong": wrong[:10]}


async def _whole_life(app: RecordedFicha, memory: Memory, key: str, number: int) -> None:
    receipt = await insist(lambda: app.submit("draw", {"number": number * 10}, account="ana", idempotency_key=key))
    memory.write(told="submitted", key=key, job=receipt.job_id, account="ana", cost=receipt.cost)
    [lease] = await _claimed(app)
    await insist(lambda: app.start(lease))
    await insist(lambda: app.finish(lease, {"number": number}))


async def _claimed(app: RecordedFicha) -> list[Lease]:
    return await insist(lambda: app.claim("default", limit=2, worker="one"))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(fail_each(Path(sys.argv[1]), int(sys.argv[2])))))
