"""Works on bulk acts: looks for an act's next jobs, does it to them, rests, and so on until it is done or stopped.

An act is held by a time that each step renews. If the process dies, that time comes, and another one goes on where the
last step ended. A step is small and rests follow, so that no call of a user waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from ..backoff import away_pause_s
from ..core.records import BulkAct
from ..errors import Refused
from ..job_log import fields_of
from ..operations import BulkOperations
from ..store.base import StoreError, Transient, Unavailable
from .due_runner import DueRunner

log = logging.getLogger("ficha.worker")

AT_ONCE: Final = 2
"""Bulk acts that one process works on at a time."""
STEP_JOBS = 20
"""Jobs of one step, which is one transaction."""
STEP_SEARCHED: Final = 2_000
"""Jobs that are looked at for one step."""
HOLD_S = 30.0
"""How long an act is held before whoever works on it is taken for dead."""
REST_S = 0.02
"""The shortest rest between two steps. After a longer step the rest is as long as the step was."""


class BulkRunner(DueRunner):
    """Works on the bulk acts that are due."""

    what = "bulk acts"

    def __init__(self, operations: BulkOperations) -> None:
        super().__init__()
        self._operations = operations

    async def _begin(self) -> int:
        free = AT_ONCE - len(self._tasks)
        due = await self._operations.due_bulk_acts(free) if free > 0 else []
        held = [act for act in [await self._operations.hold_bulk_act(one.id, HOLD_S) for one in due] if act is not None]
        for act in held:
            self._start(self._run(act), act.id)
        return len(held)

    def _heard(self) -> int:
        return self._operations.bulk_acts_heard()

    async def _wait_for_word(self, timeout_s: float, since: int) -> bool:
        return await self._operations.wait_for_bulk_acts(timeout_s, since=since)

    async def _run(self, act: BulkAct) -> None:
        held: BulkAct | None = act
        tries = 0
        while held is not None and held.state == "running":
            began_at = time.monotonic()
            try:
                held = await self._step(held)
                tries = 0
            except (Refused, StoreError) as error:
                tries += 1
                log.warning("the bulk act %s is tried again: %s", act.id, error)
                await asyncio.sleep(away_pause_s(tries))
                continue
            await asyncio.sleep(max(REST_S, time.monotonic() - began_at))
        if held is not None:
            log.info("the bulk act %s is done: %d jobs, %d failed", held.id, held.done, held.failed)

    async def _step(self, act: BulkAct) -> BulkAct | None:
        """The act after its next jobs; None if it is not held any more."""
        part = await self._operations.next_bulk_jobs(act, STEP_JOBS, STEP_SEARCHED)
        jobs = [job.id for job in part.jobs]
        try:
            return await self._operations.advance_bulk_act(act, jobs, part.stopped, HOLD_S)
        except (Transient, Unavailable):
            raise
        except StoreError:
            if not jobs:
                raise
            return await self._one_by_one(act, jobs, part.stopped)

    async def _one_by_one(self, act: BulkAct, jobs: list[str], stopped: str | None) -> BulkAct | None:
        """One job of them breaks its transaction, such as one whose rows were changed by hand: it fails alone."""
        held: BulkAct | None = act
        for job_id in jobs:
            if held is None:
                break
            at, before_id = held, stopped if job_id == jobs[-1] else job_id
            try:
                held = await self._operations.advance_bulk_act(at, [job_id], before_id, HOLD_S)
            except (Transient, Unavailable):
                raise
            except StoreError as error:
                known = fields_of(job_id, worker=self.worker)
                log.warning("the bulk act %s cannot be done to job %s: %s", act.id, job_id, error, extra=known)
                held = await self._operations.advance_bulk_act(at, [], before_id, HOLD_S, broken=(job_id, str(error)))
        return held
