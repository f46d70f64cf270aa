"""How far the events' numbers go, and which transactions may still fill a gap below."""

from __future__ import annotations

from typing import Final

from .. import base as q
from ..base import Clock
from .connections import Connection

# A transaction holds this lock on the table from before it takes a number until after its rows can be seen. Whoever
# deletes there holds it too, which does no harm. The snapshot's running transactions would tell the same, but among
# them is every long one of every other database on the server, and all would wait for those.
HORIZON: Final = """
SELECT
    coalesce((SELECT max(number) FROM events), 0),
    ARRAY(
        SELECT virtualtransaction FROM pg_locks
        WHERE relation = 'events'::regclass AND mode = 'RowExclusiveLock' AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
"""


async def get_horizon(connection: Connection, query: q.GetHorizon, clock: Clock | None) -> q.Horizon:
    """One statement: its snapshot, which sees `last`, is older than its look at the locks."""
    row = await connection.fetchrow(HORIZON)
    assert row is not None
    last, writers = row
    return q.Horizon(last, frozenset(writers))
