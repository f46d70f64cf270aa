"""Works on bulk acts: finds an act's next jobs, does the act to them, rests, and repeats until it is done or stopped.

An act is held until a time that each step renews. If the process dies, the hold expires, and another process goes on
where the last step ended. Steps are small and followed by rests, so that no user's call waits for them.
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
"""The most jobs of one step, which is one transaction."""
STEP_SEARCHED: Final = 2_000
"""The most jobs that are scanned for one step."""
HOLD_S = 30.0
"""How long an act is held before its process is treated as dead."""
REST_S = 0.02
"""The shortest rest between two steps. A rest is as long as the step before it, if that was longer."""


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
        """Does the act to its next jobs and returns it; None if it is no longer held."""
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
        """Does the act to each job alone, because one breaks the transaction (its rows were changed by hand, say): only
        that one fails."""
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
