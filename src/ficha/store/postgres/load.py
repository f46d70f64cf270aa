"""Loads what a group needs: first takes every lock that may have to be waited for, then reads the rest in one view.

Stage 1 locks in a fixed order: accounts, hot rows of the named jobs, pools, keyed records (each by key), API keys.
Stage 2 waits for nothing. Its view is newer than every lock, so it sees keys, steps, reservations, checkpoints and
slots as the previous holder of the locks left them. It locks claim candidates, and skips rows that others have locked.
Each stage is one statement, built from those parts in `load_statements.py` that the group needs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from typing import Any, Final

from msgspec import Struct, field

from ...core.needs import PROMOTIONS_PER_SLOT, Needs
from ...core.records import Account, AnyKeyed, Awaiting, Job, KeyedName, Leased, Ready
from ...core.snapshot import Snapshot
from ...core.split_requests import has_parts
from ...core.suspects import LOST_RUNS_MOST
from ..base import Clock, Transient
from ..keyed.tables import KEYED
from ..sql.jobs import job_of
from . import load_statements as s
from .dialect import Fetcher, uuids
from .keyed_rows import lock_keyed, look_at_keyed
from .layer import Layer, Stretches
from .load_statements import PART, PAYLOAD, REST, LoadPart, LoadStatement

TRIES: Final = 3
_ALL: Final = 2**31 - 1


class Locked(Struct):
    """What stage 1 has locked."""

    accounts: dict[str, Account] = field(default_factory=dict)
    keyed: dict[KeyedName, AnyKeyed] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    leases: set[str] = field(default_factory=set)
    pools: set[str] = field(default_factory=set)
    owned: Counter[str] = field(default_factory=Counter)
    """How many of the named jobs belong to each account."""


async def load(connection: Fetcher, needs: Needs, clock: Clock | None, layer: Layer) -> Snapshot:
    """Takes the locks and loads the snapshot."""
    for attempt in range(TRIES):
        locked = await lock(connection, needs, layer.without_limit if attempt == 0 else frozenset())
        snapshot = await _read(connection, needs, locked, clock, layer)
        if not torn(needs, locked, snapshot):
            return snapshot
    raise Transient(f"rows changed while they were being locked, {TRIES} times; run it again")


async def view(connection: Fetcher, needs: Needs, clock: Clock | None) -> Snapshot:
    """Loads the snapshot without locks. The caller's transaction has a single view, so all rows are of one moment."""
    locked = await lock(connection, needs, locks=False)
    return await _read(connection, needs, locked, clock, Layer(), locks=False)


async def lock(connection: Fetcher, needs: Needs, free: Set[str] = frozenset(), *, locks: bool = True) -> Locked:
    """Stage 1. It sends nothing if there is nothing to lock. Without `locks`, the same rows are only read.

    Pools that had no limit when last read (`free`) are not locked for claims; `torn` checks that they still have none.
    """
    asked = LoadStatement(locks=locks)
    accounts = needs.accounts | needs.reservations_of | needs.parked_of
    asked.add(s.LOCK_ACCOUNTS, sorted(accounts), uuids(needs.owned_jobs), uuids(needs.reservations))
    asked.add(s.LOCK_JOBS, uuids(needs.jobs | needs.owned_jobs))
    # A claim locks the pool only if it has a limit, because then slots are counted; a change of the pool always does.
    claimed = needs.ready.keys() - (free & needs.pools)
    asked.add(s.LOCK_POOLS, sorted(needs.pools - needs.ready.keys() | needs.changed_pools), sorted(claimed))
    lock_keyed(asked, needs)
    if locks and (needs.api_keys or needs.api_keys_of):
        asked.add(s.LOCK_API_KEYS)
    locked = Locked()
    if not asked.parts:
        return locked
    for what, *account, names, rest in await connection.fetch(asked.text(), *asked.values):
        match what:
            case "account":
                locked.accounts[account[0]] = Account(*account)
            case "owners":
                locked.owned.update(names)
            case "ready" | "leases" | "pools":
                getattr(locked, what).update(names)
            case kind if kind in KEYED:
                locked.keyed[kind, rest[0]] = KEYED[kind].record(rest)
    return locked


async def _read(
    connection: Fetcher, needs: Needs, locked: Locked, clock: Clock | None, layer: Layer, *, locks: bool = True
) -> Snapshot:
    """Stage 2: reads the rest."""
    promotions = _promotions(needs, locked)
    holders = [key for key in needs.reservations_of if (held := locked.accounts.get(key)) and held.reserved]
    stretches = layer.stretches(needs.ready)
    asked = LoadStatement(locks=locks)
    asked.add(s.JOBS, uuids(needs.jobs | needs.owned_jobs))
    asked.add(s.KEYS_AND_JOBS, *columns(sorted(needs.keys), 3))
    asked.add(s.CANDIDATES, *candidate_values(needs, stretches), sorted(needs.changed_pools))
    parked = s.PARKED_WITH_PAYLOADS if needs.ready else s.PARKED_JOBS
    asked.add(parked, *columns(promotions.items(), 2))
    asked.add(s.PAYLOADS, uuids(needs.payloads))
    asked.add(s.STEPS, *columns((step for step in sorted(needs.steps) if uuids(step[:1])), 2))
    asked.add(s.RESERVATIONS, uuids(needs.reservations))
    asked.add(s.RESERVATIONS_ACTIVE, sorted(holders))
    asked.add(s.POOLS, sorted(needs.pools))
    asked.add(s.CONTENTS, *columns(sorted(needs.contents), 2))
    asked.add(s.BATCHES, uuids(needs.batches))
    asked.add(s.API_KEYS, uuids(needs.api_keys))
    asked.add(s.API_KEYS_OF, sorted(needs.api_keys_of))
    asked.add(s.HOOKS_OF, uuids(needs.hooks_of))
    asked.add(s.ROWS_OF, sorted(needs.rows_of))
    asked.add(s.PARTS_OF, sorted(key for key in needs.parts_of if has_parts(locked.accounts.get(key))))
    look_at_keyed(asked, needs)
    asked.add(s.NOW)
    asked_at = time.monotonic()
    found = await connection.fetch(asked.text(), *asked.values)
    took_s = time.monotonic() - asked_at
    snapshot = snapshot_of(needs, locked, asked.parts, found, clock)
    if contents := snapshot.add_contents():
        for row in await connection.fetch(s.statement((s.CONTENTS,)), *columns(contents, 2)):
            s.take_content(snapshot, row[PAYLOAD], row[REST])
    layer.loaded(snapshot, stretches, took_s)
    return snapshot


def candidate_values(needs: Needs, stretches: Stretches) -> list[list[str]]:
    """The parameters of the statement for claim candidates."""
    listed = columns((stretch for found in stretches.values() for stretch in found), 3)
    losses = [str(LOST_RUNS_MOST if pool in needs.suspects else 0) for pool in needs.ready]
    return [*columns(needs.ready.items(), 2), *listed, losses]


def columns(tuples: Iterable[tuple[Any, ...]], width: int) -> list[list[str]]:
    """A parameter for each column of the tuples."""
    return [[*map(str, column)] for column in zip(*tuples, strict=True)] or [[] for _ in range(width)]


def _promotions(needs: Needs, locked: Locked) -> dict[str, int]:
    """How many parked jobs to load for each account that has any."""
    wanted = {key: PROMOTIONS_PER_SLOT * n for key, n in locked.owned.items()} | dict.fromkeys(needs.parked_of, _ALL)
    return {key: most for key, most in wanted.items() if key in locked.accounts and locked.accounts[key].parked}


def snapshot_of(
    needs: Needs, locked: Locked, parts: Sequence[LoadPart], found: Sequence[Any], clock: Clock | None
) -> Snapshot:
    """Puts the rows found into a snapshot. The last row is the time."""
    snapshot = needs.nothing(found[-1][REST][0] if clock is None else clock())
    snapshot.accounts.update(locked.accounts)
    snapshot.keyed.update(locked.keyed)
    snapshot.parked.update({account: [] for account in locked.accounts})
    for row in found:
        part = parts[row[PART]]
        if row[0] is not None:
            _add_job(snapshot, row, part)
        elif part.take is not None:
            part.take(snapshot, row[PAYLOAD], row[REST])
    for key in snapshot.keys.values():
        if key is not None and key.job_id is not None:
            # The job may have been deleted.
            snapshot.jobs.setdefault(key.job_id, None)
    return snapshot


def _add_job(snapshot: Snapshot, row: Any, part: LoadPart) -> None:
    job = snapshot.jobs[row[0]] = job_of(row)
    if row[PAYLOAD] is not None:
        snapshot.payloads[job.id] = row[PAYLOAD]
    if part.lists is not None:
        owner = job.spec.pool if part.lists == "ready" else job.account_id
        getattr(snapshot, part.lists)[owner].append(job.id)


def torn(needs: Needs, locked: Locked, snapshot: Snapshot) -> bool:
    """Whether, between the stages, a row appeared that had to be locked, or moved to where it is not locked."""
    return (
        any(_is_loose(job, locked) for key in needs.jobs if (job := snapshot.jobs[key]) is not None)
        or any(
            _is_loose(job, locked) or job.account_id not in locked.accounts
            for key in needs.owned_jobs
            if (job := snapshot.jobs[key]) is not None
        )
        or any(held.account_id not in locked.accounts for held in snapshot.reservations.values() if held is not None)
        or any(
            name not in locked.pools
            for name in needs.pools
            if (pool := snapshot.pools[name]) is not None
            and (pool.limit is not None or name not in needs.ready or name in needs.changed_pools)
        )
    )


def _is_loose(job: Job, locked: Locked) -> bool:
    """Whether the job's hot row is not locked. A parked row needs none: it moves on only under its account's lock."""
    match job.place:
        case Ready():
            return job.id not in locked.ready
        case Leased() | Awaiting():
            return job.id not in locked.leases
        case _:
            return False
