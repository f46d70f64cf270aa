"""Loads what a batch needs: first every lock that may have to be waited for, then one view of all the rest.

Stage 1 locks, always in the same order: accounts, hot rows of the jobs named, pools, leaders, each in key order; then
API keys.
Stage 2 waits for nothing. Its view is newer than every lock, so that keys, steps, reservations, checkpoints and slots
are seen as whoever held the locks before left them. Claim candidates are taken there, and rows that others hold are
skipped. Each stage is one statement, put together from the parts in `load_ctes.py` that the batch has a need for.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Set
from typing import Any, Final

from msgspec import Struct, field

from ...core.needs import PROMOTIONS_PER_SLOT, Needs
from ...core.records import (
    Account,
    ApiKey,
    Awaiting,
    Batch,
    Content,
    Job,
    Key,
    Leader,
    Leased,
    Pool,
    Ready,
    Reservation,
)
from ...core.snapshot import Changes, Snapshot
from ..base import Clock, Transient
from . import load_ctes, rows
from .apply import Executor
from .load_ctes import PART, PAYLOAD, REST, VERSION
from .scan_start import BEYOND, FIRST, ScanStarts, Stretch
from .sql_types import uuids

TRIES: Final = 3
_ALL: Final = 2**31 - 1


class Locked(Struct):
    """What stage 1 holds."""

    accounts: dict[str, Account] = field(default_factory=dict)
    leaders: dict[str, Leader] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    leases: set[str] = field(default_factory=set)
    pools: set[str] = field(default_factory=set)
    owned: Counter[str] = field(default_factory=Counter)
    """How many of the jobs named belong to each account."""


async def load(
    connection: Executor, needs: Needs, clock: Clock | None, heads: ScanStarts, resized: frozenset[str] = frozenset()
) -> Snapshot:
    """The snapshot, under its locks; pools that are `resized` are locked and counted though they have no limit yet."""
    for attempt in range(TRIES):
        locked = await lock(connection, needs, resized, heads.without_limit if attempt == 0 else frozenset())
        snapshot = await _read(connection, needs, locked, clock, heads, resized)
        if not torn(needs, locked, snapshot):
            return snapshot
    raise Transient(f"rows kept moving while they were being locked, {TRIES} times; run the batch again")


async def view(connection: Executor, needs: Needs, clock: Clock | None) -> Snapshot:
    """The same, only looked at; all of one moment, as the caller's transaction has a single view."""
    heads = ScanStarts()
    locked = await lock(connection, needs, locks=False)
    return await _read(connection, needs, locked, clock, heads, frozenset(), locks=False)


Versions = dict[str, str]
"""The versions of rows, by their keys."""


async def see(
    connection: Executor, needs: Needs, clock: Clock | None, heads: ScanStarts
) -> tuple[Snapshot, Versions, Versions]:
    """What claims need, as it stands just now, with the versions of the ready rows and the pools; nothing is locked."""
    stretches = {pool: heads.stretches(pool) for pool in needs.ready}
    ask = load_ctes.Ask()
    pool, most = next(iter(needs.ready.items()))
    if len(needs.ready) == 1 and stretches[pool] == [(pool, FIRST, BEYOND)]:
        ask.add(load_ctes.SEEN_OF_ONE, pool, most)
    else:
        ask.add(load_ctes.SEEN, list(needs.ready), list(needs.ready.values()), *_stretched(stretches))
    snapshot, found = await _asked(connection, needs, Locked(), clock, heads, ask, stretches)
    ready = {row[0]: row[VERSION] for row in found if row[PART] == "ready"}
    pools = {row[REST][0]: row[VERSION] for row in found if row[PART] == "pool"}
    return snapshot, ready, pools


def unlocked(needs: Needs, snapshot: Snapshot, changes: Changes) -> frozenset[str]:
    """Pools that a batch changes and that were not locked, because it also claims from them and they had no limit.

    `needs` does not tell such a batch from one that only claims, so it is found out afterwards.
    """
    return frozenset(
        pool.name
        for pool in changes.pools
        if pool.name in needs.ready and (before := snapshot.pools[pool.name]) is not None and before.limit is None
    )


async def lock(
    connection: Executor,
    needs: Needs,
    resized: frozenset[str] = frozenset(),
    free: Set[str] = frozenset(),
    *,
    locks: bool = True,
) -> Locked:
    """Stage 1, left out where there is nothing to lock; without `locks`, the same rows are only read.

    Pools that were `free` of a limit when last seen are not looked at for claims; `torn` sees whether they still are.
    """
    ask = load_ctes.Ask(locks=locks)
    ask.add(
        load_ctes.LOCK_ACCOUNTS,
        sorted(needs.accounts | needs.reservations_of | needs.parked_of),
        uuids(needs.owned_jobs),
        uuids(needs.reservations),
    )
    ask.add(load_ctes.LOCK_JOBS, uuids(needs.jobs | needs.owned_jobs))
    # A claim needs the pool to itself only where slots are counted; whoever changes a pool always does.
    claimed = needs.ready.keys() - (free & needs.pools)
    ask.add(load_ctes.LOCK_POOLS, sorted(needs.pools - needs.ready.keys() | resized), sorted(claimed))
    ask.add(load_ctes.LOCK_LEADERS, sorted(needs.leaders))
    if locks and (needs.api_keys or needs.api_keys_of):
        ask.add(load_ctes.LOCK_API_KEYS)
    locked = Locked()
    if not ask.parts:
        return locked
    for row in await connection.fetch(ask.text(), *ask.values):
        match row[0]:
            case "account":
                locked.accounts[row[1]] = Account(*row[1:-2])
            case "leader":
                locked.leaders[row[-1][0]] = Leader(*row[-1])
            case "ready":
                locked.ready.update(row[-2])
            case "leases":
                locked.leases.update(row[-2])
            case "pools":
                locked.pools.update(row[-2])
            case "owners":
                locked.owned.update(row[-2])
    return locked


async def _read(
    connection: Executor,
    needs: Needs,
    locked: Locked,
    clock: Clock | None,
    heads: ScanStarts,
    resized: frozenset[str],
    *,
    locks: bool = True,
) -> Snapshot:
    """Stage 2."""
    promotions = _promotions(needs, locked)
    stretches = {pool: heads.stretches(pool) for pool in needs.ready}
    ask = load_ctes.Ask(locks=locks)
    ask.add(load_ctes.JOBS, uuids(needs.jobs | needs.owned_jobs))
    ask.add(load_ctes.KEYS_AND_JOBS, *_columns(sorted(needs.keys), 3))
    ask.add(
        load_ctes.CANDIDATES,
        list(needs.ready),
        list(needs.ready.values()),
        sorted(resized),
        *_stretched(stretches),
    )
    parked = load_ctes.PARKED_WITH_PAYLOADS if needs.ready else load_ctes.PARKED_JOBS
    ask.add(parked, list(promotions), list(promotions.values()))
    ask.add(load_ctes.PAYLOADS, uuids(needs.payloads))
    ask.add(load_ctes.STEPS, *_columns((step for step in sorted(needs.steps) if uuids(step[:1])), 2))
    ask.add(load_ctes.RESERVATIONS_NAMED, uuids(needs.reservations))
    holders = [key for key in needs.reservations_of if (held := locked.accounts.get(key)) and held.reserved]
    ask.add(load_ctes.RESERVATIONS_ACTIVE, sorted(holders))
    ask.add(load_ctes.POOLS_NAMED, sorted(needs.pools))
    ask.add(load_ctes.CONTENTS, *_columns(sorted(needs.contents), 2))
    ask.add(load_ctes.BATCHES_NAMED, uuids(needs.batches))
    ask.add(load_ctes.API_KEYS_NAMED, uuids(needs.api_keys), sorted(needs.api_keys_of))
    ask.add(load_ctes.NOW)
    return (await _asked(connection, needs, locked, clock, heads, ask, stretches))[0]


def _stretched(stretches: dict[str, list[Stretch]]) -> list[list[Any]]:
    return _columns((stretch for found in stretches.values() for stretch in found), 3)


async def _asked(
    connection: Executor,
    needs: Needs,
    locked: Locked,
    clock: Clock | None,
    heads: ScanStarts,
    ask: load_ctes.Ask,
    stretches: dict[str, list[Stretch]],
) -> tuple[Snapshot, list[Any]]:
    """The snapshot and the rows that it was made of; the heads learn what was found of their pools."""
    asked_at = time.monotonic()
    found = await connection.fetch(ask.text(), *ask.values)
    took_s = time.monotonic() - asked_at
    snapshot = _snapshot(needs, locked, found, clock)
    for name, ids in snapshot.ready.items():
        heads.looked(stretches[name], (_rank(snapshot.jobs[key]) for key in ids), took_s)
        heads.without_limit.discard(name)
        if (pool := snapshot.pools.get(name)) is not None and pool.limit is None:
            heads.without_limit.add(name)
    return snapshot, found


def _rank(job: Job | None) -> int:
    assert job is not None
    assert isinstance(job.place, Ready)
    return job.place.rank


def _columns(tuples: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*tuples, strict=True)] or [[] for _ in range(width)]


def _promotions(needs: Needs, locked: Locked) -> dict[str, int]:
    """How many parked jobs to load of each account; those that have none are not asked."""
    wanted = {account: PROMOTIONS_PER_SLOT * jobs for account, jobs in locked.owned.items()}
    wanted.update(dict.fromkeys(needs.parked_of, _ALL))
    return {key: most for key, most in wanted.items() if key in locked.accounts and locked.accounts[key].parked}


def _snapshot(needs: Needs, locked: Locked, found: list[Any], clock: Clock | None) -> Snapshot:
    """The rows that were found in the places of those that were asked for."""
    named = needs.accounts | needs.reservations_of | needs.parked_of
    snapshot = Snapshot(
        now=found[-1][REST][0] if clock is None else clock(),
        accounts={**dict.fromkeys(named), **locked.accounts},
        jobs=dict.fromkeys(needs.jobs | needs.owned_jobs),
        steps=dict.fromkeys(needs.steps),
        keys=dict.fromkeys(needs.keys),
        reservations=dict.fromkeys(needs.reservations),
        reservations_of={account: [] for account in needs.reservations_of},
        parked={account: [] for account in (*named, *locked.accounts)},
        pools=dict.fromkeys(needs.pools),
        occupied=dict.fromkeys(needs.ready, 0),
        ready={pool: [] for pool in needs.ready},
        contents=dict.fromkeys(needs.contents),
        leaders={**dict.fromkeys(needs.leaders), **locked.leaders},
        batches=dict.fromkeys(needs.batches),
        api_keys=dict.fromkeys(needs.api_keys),
        api_keys_of={name: [] for name in needs.api_keys_of},
    )
    for row in found:
        if row[0] is not None:
            _add_job(snapshot, row)
        else:
            _add_other(snapshot, row[PART], row[PAYLOAD], row[REST])
    return snapshot


def _add_job(snapshot: Snapshot, row: Any) -> None:
    job = snapshot.jobs[row[0]] = rows.job(row)
    if row[PAYLOAD] is not None:
        snapshot.payloads[job.id] = row[PAYLOAD]
    match row[PART]:
        case "ready":
            snapshot.ready[job.spec.pool].append(job.id)
        case "parked":
            snapshot.parked[job.account_id].append(job.id)


def _add_other(snapshot: Snapshot, part: str, payload: str, rest: Any) -> None:
    match part:
        case "payload":
            snapshot.payloads[rest[0]] = payload
        case "key":
            snapshot.keys[rest[0], rest[1], rest[2]] = Key(*rest)
        case "step":
            snapshot.steps[rest[0], rest[1]] = rest[2]
        case "reservation":
            snapshot.reservations[rest[0]] = Reservation(*rest)
        case "active":
            held = Reservation(*rest)
            snapshot.reservations_of[held.account_id].append(held)
        case "pool":
            snapshot.pools[rest[0]] = Pool(*rest)
        case "occupied":
            snapshot.occupied[rest[0]] = rest[1]
        case "content":
            snapshot.contents[rest[0], rest[1]] = Content(*rest)
        case "batch":
            snapshot.batches[rest[0]] = Batch(*rest)
        case "api key":
            snapshot.api_keys[rest[0]] = ApiKey(*rest)
        case "api key of":
            snapshot.api_keys_of[rest[1]].append(ApiKey(*rest))


def torn(needs: Needs, locked: Locked, snapshot: Snapshot) -> bool:
    """Whether something that had to be locked came, or moved to where it was not locked, between the two stages."""
    return (
        any(_is_loose(job, locked) for key in needs.jobs if (job := snapshot.jobs[key]) is not None)
        or any(
            _is_loose(job, locked) or job.account_id not in locked.accounts
            for key in needs.owned_jobs
            if (job := snapshot.jobs[key]) is not None
        )
        or any(held.account_id not in locked.accounts for held in snapshot.reservations.values() if held is not None)
        or any(
            pool.name not in locked.pools
            for name in needs.pools
            if (pool := snapshot.pools[name]) is not None and (pool.limit is not None or name not in needs.ready)
        )
    )


def _is_loose(job: Job, locked: Locked) -> bool:
    """Parked rows move only under their account's lock, so they need none of their own."""
    match job.place:
        case Ready():
            return job.id not in locked.ready
        case Leased() | Awaiting():
            return job.id not in locked.leases
        case _:
            return False
