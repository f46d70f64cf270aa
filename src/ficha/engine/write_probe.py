"""Tries what a submit needs of the database: the schema of this release, and to commit a small write.

A write that is rolled back would see neither a full disk nor a synchronous standby that is away. What is written is the
row of a duty: while it lasts, whoever else asks sees that somebody has written just now. So all processes of a database
together write once in `EVERY_S`.
"""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from typing import TYPE_CHECKING, Final

from ..core.commands import Elect
from ..core.decide import decide
from ..core.needs import needs
from ..core.policy import SECOND
from ..core.records import Leader
from ..core.snapshot import Snapshot
from ..store.base import Decision, GetSnapshot, HasSchema, StoreError, Unavailable

if TYPE_CHECKING:
    from .engine import Engine

DUTY: Final = "trial of writing"
EVERY_S: Final = 5.0
WITHIN_S: Final = 2.0
FRESH_S: Final = 2 * EVERY_S
"""For so long counts what the calls of this process found, and a server whose trial has run out as alive."""


class NotInTime(Unavailable):
    """A small write did not end in time."""

    says = (
        f"the database did not commit a small write within {WITHIN_S:g} s: it is overloaded, a lock is held, or a "
        "synchronous standby is away"
    )


class WriteProbe:
    """One per process. It goes past the calls that wait, so that many of them do not count as a failure."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._id = str(uuid.uuid4())
        self._name = f"{socket.gethostname()} {self._id}"
        self._number = 0

    async def problem(self) -> StoreError | None:
        """Why a submit would fail now; None if nothing is known to be wrong."""
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._read_and_write()
        except TimeoutError:
            return NotInTime(NotInTime.says)
        except StoreError as error:
            return error
        found = self.engine.trouble
        return None if found is None or time.monotonic() - found.at > FRESH_S else found.error

    async def _read_and_write(self) -> None:
        store = self.engine.store
        if isinstance(store, HasSchema):
            await store.check_schema()
        command = _trial(self._name)

        def decided(snapshot: Snapshot) -> Decision:
            return decide(snapshot, [command], self.engine.policy)

        self._number += 1
        await store.transact(self._id, self._number, needs([command]), decided)


async def live_server(engine: Engine) -> str | None:
    """The machine of the server that tried last, if one did so just now: whether any server is alive."""
    snapshot = await engine.store.read(GetSnapshot(needs([_trial("")])))
    for found in snapshot.keyed.values():
        if isinstance(found, Leader) and found.expires_at + int(FRESH_S * SECOND) > snapshot.now:
            return found.owner.split()[0]
    return None


def _trial(owner: str) -> Elect:
    return Elect(DUTY, owner, int(EVERY_S * 1_000))
