"""Writes what a run reports, under the run's lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct

from ..backoff import away_pause_s
from ..engine.views import Lease
from ..errors import Overloaded, Refused
from ..file_data import can_be_read_again
from ..operations import LeaseOperations
from ..store.base import StoreError
from .run import facts_of
from .run_log import record


class LeaseWriter(Struct, eq=False, gc=False):
    """Calls a method of `LeaseOperations` with the run's lease, and retries while the database is unreachable.

    Results of steps are returned as the stored JSON text, which the process of the handler reads.

    gives_up: whether to stop retrying. By default there are no retries. is_full: whether the job's history keeps no
    more lines. left_out: how many were left out since.
    """

    operations: LeaseOperations
    lease: Lease
    gives_up: Callable[[], bool] = lambda: True
    is_full: bool = False
    left_out: int = 0

    async def __call__(self, verb: str, *args: Any, **options: Any) -> Any:
        tries = 0
        while True:
            try:
                if verb == "steps":
                    return await self.operations.steps_json(self.lease.job_id)
                if verb == "note":
                    return await self._note(*args)
                if verb == "save_step":
                    return await self.operations.save_step_json(self.lease, *args, **options)
                return await getattr(self.operations, verb)(self.lease, *args, **options)
            except (Overloaded, StoreError) as error:
                if self.gives_up() or (verb == "save_file" and not can_be_read_again(args[1])):
                    raise
                # The handler waits meanwhile: if it went on without storing its work, the work might have to be redone.
                record("unwritten", facts_of(self.lease), "running", level=logging.WARNING, error=str(error))
            tries += 1
            await asyncio.sleep(away_pause_s(tries))

    async def _note(self, text: str) -> None:
        """A line that would not be kept costs no transaction."""
        self.is_full = self.is_full or not await self.operations.keep_line(self.lease, text)
        self.left_out += self.is_full

    async def tell_left_out(self) -> None:
        """Writes how many lines were left out, at the end of the run."""
        lines, self.left_out = self.left_out, 0
        with suppress(Refused, StoreError):
            await self.operations.note_left_out(self.lease, lines)
