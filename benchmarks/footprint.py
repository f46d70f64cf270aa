"""What a finished life costs in bytes: what stays in the database, and what is written to its log. PostgreSQL only.

The jobs are submitted in bulk and worked off by the peer's own worker. Storage is what all tables, indexes and TOAST
tables have grown by, each looked at after a VACUUM; the log is how far its end has moved meanwhile. Both after a
warm-up, so that what a database has once counts for nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import asyncpg

from .databases import Kind
from .ficha_side import FichaSide
from .measurements import LONGEST_S, Trial
from .peer import Peer, Tally
from .workload import Numbers, Size

KEY: Final = "bytes"
JOBS: Final = 10_000
SHOWN: Final = 12
"""The largest relations are named in the report."""

SIZES: Final = """
SELECT c.relname, pg_table_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('public', 'ficha') AND c.relkind IN ('r', 'i')
"""
END_OF_LOG: Final = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"


@dataclass(frozen=True)
class Footprint:
    """Bytes per finished job: what stays, what was logged, and what stays by table and index."""

    storage: float
    log: float
    relations: dict[str, float]


class ManyAccounts(FichaSide):
    accounts = 500


async def footprint(peer: Peer, kind: Kind, size: Size) -> Footprint:
    """One figure on a fresh database, with the proof that all was done."""
    jobs = min(JOBS, size.jobs)
    async with asyncio.timeout(LONGEST_S), kind.fresh(peer) as url:
        await peer.open(url)
        connection = await asyncpg.connect(url)
        try:
            trial = Trial(peer, kind, url, size, Numbers())
            await trial.warm_up()
            await kind.settle(url)
            before, began = await _sizes(connection), await connection.fetchval(END_OF_LOG)
            await trial.fill(jobs)
            tally = Tally()
            async with peer.working(tally):
                await tally.reach(jobs)
            trial.finished += tally.count
            logged = float(await connection.fetchval(END_OF_LOG) - began)
            await kind.settle(url)
            after = await _sizes(connection)
            await peer.check(trial.numbers.used, trial.finished)
        finally:
            await connection.close()
            await peer.close()
    grown = {name: (bytes_ - before.get(name, 0)) / jobs for name, bytes_ in after.items()}
    return Footprint(sum(grown.values()), logged / jobs, {name: by for name, by in grown.items() if by > 0})


async def _sizes(connection: asyncpg.Connection) -> dict[str, int]:
    return {name: size for name, size in await connection.fetch(SIZES)}
