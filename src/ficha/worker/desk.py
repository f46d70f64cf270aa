"""Where a run's words become those of its lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ..engine.views import Lease
from ..operations import Leases
from ..refused import Overloaded
from ..store.base import StoreError
from .endings import pause_s
from .journal import record
from .run import facts_of


class Desk:
    """Says what a run has to say: a verb of `Leases` with its arguments, under the run's own lease.

    gives_up: whether a database that is away is waited for no longer. Defaults to never waiting for it.
    """

    __slots__ = ("_gives_up", "_lease", "_operations")

    def __init__(self, operations: Leases, lease: Lease, gives_up: Callable[[], bool] = lambda: True) -> None:
        self._operations = operations
        self._lease = lease
        self._gives_up = gives_up

    async def __call__(self, verb: str, *args: Any, **options: Any) -> Any:
        tries = 0
        while True:
            try:
                if verb == "steps":
                    return await self._operations.steps(self._lease.job_id)
                return await getattr(self._operations, verb)(self._lease, *args, **options)
            except (Overloaded, StoreError) as error:
                if self._gives_up():
                    raise
                # The handler waits as well: what it has done and could not store would have to be done again.
                record("unwritten", facts_of(self._lease), "running", level=logging.WARNING, error=str(error))
            tries += 1
            await asyncio.sleep(pause_s(tries))
